// Puts the rows of a part on a query's list that can be among its k nearest. All scores of the part are in memory: those of every
// `block_step`-th block. One workgroup per query. A score gives an interval (lib/intervals.wgsl). Each invocation keeps the smallest upper ends
// of its rows; the k-th smallest of those of all invocations is a threshold, and rows whose lower end is not above it go on the
// list. k rows lie at or below the threshold, so it is valid for the other blocks, too; that it is not the smallest valid
// one costs a few rows more. Earlier parts may have lowered the threshold, and put rows on the list.
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(2) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(3) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(4) var<storage, read_write> counts: array<u32>; // [queries]
@group(0) @binding(5) var<storage, read_write> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(6) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys
@group(0) @binding(7) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1

override RADIX: u32 = 0u; // 1: for a k above FEW

const BESIDE = 8u; // blocks of scores that a workgroup visits at the same time
const HELD = 4u; // turns whose intervals stay in registers: those of 4,096 rows

var<workgroup> side: Query;
var<workgroup> kept: atomic<u32>;

struct Ends { lower: vec4<u32>, upper: vec4<u32> }

// The first of four neighbouring rows in block number `block` of the scores.
fn row_of(block: u32, lane: u32) -> u32 { return (params.block_first + block * params.block_step) * BLOCK_ROWS + lane * 4u; }

// The intervals of four neighbouring rows. Those of rows that are not there end nowhere.
fn ends_of(query: u32, block: u32, lane: u32) -> Ends {
  let row = row_of(block, lane);
  var ends = Ends(vec4(ABSENT), vec4(ABSENT));
  if (block >= params.part_blocks || row >= params.rows) { return ends; }
  let score = scores[((params.column_first / BLOCK_ROWS + block) * params.room + query) * (BLOCK_ROWS / 4u) + lane];
  var scale: vec4<f32>;
  var length: vec4<f32>;
  var residual: vec4<f32>;
  var floor_x: vec4<f32>;
  var slack: vec4<f32>;
  // unroll on hardware
  for (var r = 0u; r < 4u; r++) {
    let terms = row_side(row_terms[row + r]);
    scale[r] = terms.x;
    length[r] = terms.y;
    residual[r] = terms.z;
    slack[r] = slack_of(terms);
    floor_x[r] = terms.w - slack[r];
  }
  let lower = lower_end(side, score, scale, length, residual, floor_x);
  let upper = lower + 2.0 * margin_of(side, score, length, residual, slack);
  // unroll on hardware
  for (var r = 0u; r < 4u; r++) {
    if (is_usable(row + r)) {
      ends.lower[r] = key_of(lower[r]);
      ends.upper[r] = key_of(upper[r]);
    }
  }
  return ends;
}

// Puts those of four neighbouring rows on the list that the threshold does not exclude.
fn keep(query: u32, block: u32, lane: u32, ends: Ends, limit: u32) {
  // unroll on hardware
  for (var r = 0u; r < 4u; r++) {
    if (ends.lower[r] <= limit) {
      let place = atomicAdd(&kept, 1u);
      // The count tells that rows were dropped.
      if (place < params.capacity) {
        let entry = query * params.capacity + place;
        candidates[entry] = params.first_slot + row_of(block, lane) + r;
        candidates[params.plane + entry] = ends.lower[r];
        candidates[2u * params.plane + entry] = ends.upper[r];
      }
    }
  }
}

@compute @workgroup_size(WORKGROUP)
fn winnow(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  let lane = index & 31u;
  let beside = index >> 5u;
  if (index == 0u) {
    side = query_of(terms_of(query_terms[query]), 0.0);
    atomicStore(&kept, select(counts[query], 0u, params.is_first == 1u));
  }
  workgroupBarrier();

  // The smallest upper ends at each of the four places, of even and odd turns apart, because a query's nearest rows are often
  // neighbours.
  var even = vec4(ABSENT);
  var odd = vec4(ABSENT);
  var held: array<Ends, HELD>;
  // unroll on hardware
  for (var turn = 0u; turn < HELD; turn++) {
    held[turn] = ends_of(query, beside + turn * BESIDE, lane);
    if (turn % 2u == 0u) { even = min(even, held[turn].upper); } else { odd = min(odd, held[turn].upper); }
  }
  for (var block = beside + HELD * BESIDE; block < params.part_blocks; block += 2u * BESIDE) {
    even = min(even, ends_of(query, block, lane).upper);
    odd = min(odd, ends_of(query, block + BESIDE, lane).upper);
  }
  var limit: u32;
  if (RADIX == 0u) {
    let both = min(even, odd);
    let own = min(min(both.x, both.y), min(both.z, both.w));
    limit = min(key_of_rank(index, own, WORKGROUP, params.k - 1u), LARGEST_KEY);
  } else {
    var found = vec2(0u, params.k - 1u);
    for (var digit = 0u; digit < 3u; digit++) {
      let shift = select(21u - 11u * digit, 0u, digit == 2u);
      clear_digits(index);
      // unroll on hardware
      for (var r = 0u; r < 4u; r++) {
        count_digit(even[r], found.x, shift);
        count_digit(odd[r], found.x, shift);
      }
      found = pick_digit(index, found, shift);
    }
    limit = min(found.x, LARGEST_KEY);
  }

  if (params.is_first == 0u) { limit = min(limit, thresholds[query]); }

  // unroll on hardware
  for (var turn = 0u; turn < HELD; turn++) { keep(query, beside + turn * BESIDE, lane, held[turn], limit); }
  for (var block = beside + HELD * BESIDE; block < params.part_blocks; block += BESIDE) {
    keep(query, block, lane, ends_of(query, block, lane), limit);
  }
  let all = workgroupUniformLoad(&kept);
  if (index == 0u) {
    counts[query] = all;
    thresholds[query] = limit;
  }
}
