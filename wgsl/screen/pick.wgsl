// Takes each query's threshold from the best intervals of all blocks, as `screen_scan_i8` leaves them, and puts the rows on its list
// that the threshold does not exclude. The k-th smallest of the blocks' smallest upper ends is a threshold: k rows lie at or
// below it. Only blocks with a lower end at or below it can have rows that stay. Several workgroups share a query: each finds
// the threshold and takes some of the blocks.
@group(0) @binding(1) var<storage, read> scores: array<f32>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(2) var<storage, read> best: array<vec2<u32>>; // [queries, blocks]: smallest lower and upper key
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(5) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(6) var<storage, read_write> thresholds: array<atomic<u32>>; // [queries]: keys
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>; // [queries]
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

override RADIX: u32 = 0u; // 1: for a k above FEW

const HELD = 4u; // blocks that an invocation looks at together
const BESIDE = WORKGROUP / BLOCK_ROWS; // blocks whose rows are tested at the same time
const TURNS = 2u; // times that many, loaded together
const NEAR = 4u * WORKGROUP;

var<workgroup> near: array<u32, NEAR>; // blocks that can have rows that stay
var<workgroup> near_count: atomic<u32>;

@compute @workgroup_size(WORKGROUP)
fn pick(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup.y;
  let first = query * params.blocks;
  // Another workgroup may have lowered it already: that one is valid, too.
  var limit = atomicLoad(&thresholds[query]);
  if (params.k <= params.blocks && RADIX == 0u) {
    var least = ABSENT;
    for (var start = index; start < params.blocks; start += HELD * WORKGROUP) {
      // unroll on hardware
      for (var h = 0u; h < HELD; h++) {
        if (start + h * WORKGROUP < params.blocks) { least = min(least, best[first + start + h * WORKGROUP].y); }
      }
    }
    limit = min(limit, key_of_rank(index, least, WORKGROUP, params.k - 1u));
  } else if (params.k <= params.blocks) {
    // The highest 22 bits, by two digits. The others are set: a threshold that is larger by 2^-13 of itself is still valid.
    var found = vec2(0u, params.k - 1u);
    for (var turn = 0u; turn < 2u; turn++) {
      let shift = 21u - 11u * turn;
      clear_digits(index);
      for (var start = index; start < params.blocks; start += HELD * WORKGROUP) {
        var uppers = array<u32, HELD>();
        // unroll on hardware
        for (var h = 0u; h < HELD; h++) {
          if (start + h * WORKGROUP < params.blocks) { uppers[h] = best[first + start + h * WORKGROUP].y; }
        }
        // unroll on hardware
        for (var h = 0u; h < HELD; h++) {
          if (start + h * WORKGROUP < params.blocks) { count_digit(uppers[h], found.x, shift); }
        }
      }
      found = pick_digit(index, found, shift);
    }
    limit = min(limit, min(found.x | ROUNDED_BITS, LARGEST_KEY));
  }
  let side = query_of(query_terms[query], 0.0);
  let first_column = params.column_first >> BLOCK_SHIFT;
  for (var start = 0u; start * workgroups.x + workgroup.x < params.part_blocks; start += NEAR) {
    workgroupBarrier();
    if (index == 0u) { atomicStore(&near_count, 0u); }
    workgroupBarrier();
    // unroll on hardware
    for (var h = 0u; h < NEAR / WORKGROUP; h++) {
      let block = (start + h * WORKGROUP + index) * workgroups.x + workgroup.x;
      if (block < params.part_blocks && best[first + first_column + block].x <= limit) {
        near[atomicAdd(&near_count, 1u)] = block;
      }
    }
    workgroupBarrier();
    let count = atomicLoad(&near_count);
    for (var next = index / BLOCK_ROWS; next < count; next += TURNS * BESIDE) {
      var row = array<u32, TURNS>();
      var score = array<f32, TURNS>();
      var terms = array<vec4<f32>, TURNS>();
      // unroll on hardware
      for (var t = 0u; t < TURNS; t++) {
        row[t] = params.rows;
        if (next + t * BESIDE < count) {
          let number = near[next + t * BESIDE];
          row[t] = (params.block_first + number * params.block_step) * BLOCK_ROWS + index % BLOCK_ROWS;
          score[t] = scores[score_place(query, (first_column + number) * BLOCK_ROWS + index % BLOCK_ROWS, params.room)];
          terms[t] = row_terms[row[t]];
        }
      }
      // unroll on hardware
      for (var t = 0u; t < TURNS; t++) {
        let keys = keys_of(side, score[t], row_side(terms[t]));
        if (keys.x <= limit && is_usable(row[t])) {
          put(query, atomicAdd(&counts[query], 1u), params.first_slot + row[t], keys.x, keys.y);
        }
      }
    }
  }
  if (index == 0u) { atomicMin(&thresholds[query], limit); }
}
