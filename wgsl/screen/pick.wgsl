// Takes each query's threshold from the best intervals of all blocks, as `screen_scan_i8` leaves them, and puts the rows on its list
// that the threshold does not exclude. One workgroup per query. The k-th smallest of the blocks' smallest upper ends is a
// threshold: k rows lie at or below it. Only blocks with a lower end at or below it can have rows that stay.
@group(0) @binding(1) var<storage, read> scores: array<f32>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(2) var<storage, read> best: array<vec2<u32>>; // [queries, blocks]: smallest lower and upper key
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(5) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(6) var<storage, read_write> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(7) var<storage, read_write> counts: array<u32>; // [queries]
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

const HELD = 4u; // blocks that an invocation looks at together
const BESIDE = WORKGROUP / BLOCK_ROWS; // blocks whose rows are tested at the same time

var<workgroup> threshold: u32;
var<workgroup> kept: atomic<u32>;
var<workgroup> near: array<u32, HELD * WORKGROUP>; // blocks that can have rows that stay
var<workgroup> near_count: atomic<u32>;

fn upper_of(query: u32, block: u32) -> u32 { return best[query * params.blocks + block].y; }

// Tests a row of a block of scores.
fn test_row(query: u32, side: Query, limit: u32, number: u32, within: u32) {
  let row = (params.block_first + number * params.block_step) * BLOCK_ROWS + within;
  if (!is_usable(row)) { return; }
  let score = scores[score_place(query, params.column_first + number * BLOCK_ROWS + within, params.room)];
  let keys = keys_of(side, score, row_side(row_terms[row]));
  if (keys.x <= limit) { put(query, atomicAdd(&kept, 1u), params.first_slot + row, keys.x, keys.y); }
}

@compute @workgroup_size(WORKGROUP)
fn pick(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) {
    threshold = LARGEST_KEY;
    atomicStore(&kept, 0u);
    // Parts after the first, and chunks after the first, add to what is there.
    if (params.is_first == 0u) {
      threshold = thresholds[query];
      atomicStore(&kept, counts[query]);
    }
  }
  var limit = workgroupUniformLoad(&threshold);
  // The first part of a chunk lowers the threshold for all of them.
  if (params.column_first == 0u && params.k <= params.blocks) {
    // The highest 22 bits, by two digits. The others are set: a threshold that is larger by 2^-13 of itself is still valid.
    var found = vec2(0u, params.k - 1u);
    for (var turn = 0u; turn < 2u; turn++) {
      let shift = 21u - 11u * turn;
      clear_digits(index);
      for (var start = index; start < params.blocks; start += HELD * WORKGROUP) {
        var uppers: array<u32, HELD>;
        // unroll
        for (var h = 0u; h < HELD; h++) {
          if (start + h * WORKGROUP < params.blocks) { uppers[h] = upper_of(query, start + h * WORKGROUP); }
        }
        // unroll
        for (var h = 0u; h < HELD; h++) {
          if (start + h * WORKGROUP < params.blocks) { count_digit(uppers[h], found.x, shift); }
        }
      }
      found = pick_digit(index, found, shift);
    }
    limit = min(limit, min(found.x | ROUNDED_BITS, LARGEST_KEY));
  }
  let side = query_of(query_terms[query], 0.0);
  let first = query * params.blocks + (params.column_first >> BLOCK_SHIFT);
  for (var start = 0u; start < params.part_blocks; start += HELD * WORKGROUP) {
    workgroupBarrier();
    if (index == 0u) { atomicStore(&near_count, 0u); }
    workgroupBarrier();
    // unroll
    for (var h = 0u; h < HELD; h++) {
      let block = start + h * WORKGROUP + index;
      if (block < params.part_blocks && best[first + block].x <= limit) { near[atomicAdd(&near_count, 1u)] = block; }
    }
    workgroupBarrier();
    let found = atomicLoad(&near_count);
    for (var i = index / BLOCK_ROWS; i < found; i += BESIDE) { test_row(query, side, limit, near[i], index % BLOCK_ROWS); }
  }
  workgroupBarrier();
  if (index == 0u) {
    thresholds[query] = limit;
    counts[query] = atomicLoad(&kept);
  }
}
