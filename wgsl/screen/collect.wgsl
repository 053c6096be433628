// Collects the rows that can still be among the nearest. A score, with the terms of its query and its row, gives an interval
// that holds the true distance and the one `refine` will report (docs/certified-search.md); a row is kept unless its lower
// end lies above the query's threshold. An invocation owns four rows, keeps their terms in registers and loops over queries,
// so it reads four bytes per score.
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(2) var<storage, read> row_terms: array<vec2<f32>>; // [rows]: norms, or [rows, 2] quantised terms
@group(0) @binding(3) var<storage, read> query_terms: array<vec2<f32>>; // the same for queries
@group(0) @binding(4) var<storage, read> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(5) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(6) var<storage, read_write> counts: array<atomic<u32>>; // [queries]
@group(0) @binding(7) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

override SAMPLE: u32 = 0u; // 1: there is no threshold yet, and every row is kept at a place of its own

var<workgroup> query_side: array<Query, QUERIES>;

// Rows that are kept: query << 10 | invocation << 2 | row of its four.
const HITS = 1024u;
var<workgroup> hits: array<u32, HITS>;
var<workgroup> hit_count: atomic<u32>;
var<workgroup> hits_of: array<atomic<u32>, QUERIES>;

// The terms of a row.
fn row_terms_of(row: u32) -> vec4<f32> {
  if (FORM == FORM_DIRECT) { return vec4(0.0); }
  if (FORM < FORM_QUANTIZED) { return terms_of(vec4(row_terms[row], vec2(0.0))); }
  return row_side(vec4(row_terms[2u * row], row_terms[2u * row + 1u]));
}

// The first of the four rows of a group.
fn row_of(group: u32) -> u32 {
  return (params.block_first + (group >> GROUPS_SHIFT) * params.block_step) * BLOCK_ROWS + (group & (GROUPS - 1u)) * GROUP;
}

// Puts a row on its query's list, with the ends of its interval.
fn keep_one(query: u32, group: u32, r: u32, place: u32) {
  let row = row_of(group) + r;
  let terms = row_terms_of(row);
  let side = query_side[query % QUERIES];
  let score = scores[(score_place(query, params.column_first + group * GROUP, params.room) >> 2u)][r];
  let keys = keys_of(side, score, terms);
  put(query, place, params.first_slot + row, keys.x, keys.y);
}

@compute @workgroup_size(WORKGROUP)
fn collect(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let queries_each = select(QUERIES, AT_ONCE, SAMPLE == 1u);
  let first = workgroup.y * queries_each;
  let end = min(first + queries_each, params.queries);

  // Groups of four rows of this round: every round_step-th of the chunk, except those of earlier rounds.
  let group = params.round_start + (workgroup.x * WORKGROUP + index) * params.round_step;
  let number = (params.column_first >> 2u) + group;
  let was_seen = params.round_skip != 0u && (number & (params.round_skip - 1u)) == 0u;
  let is_looked_at = group < params.groups && !was_seen;
  let row = row_of(group);
  let place = score_place(0u, params.column_first + group * GROUP, params.room) >> 2u;

  // The rows' terms and the first scores are loaded while the queries are prepared.
  var usable = 0u; // one bit per row
  var scale: vec4<f32>;
  var length: vec4<f32>;
  var residual: vec4<f32>;
  var floor_x: vec4<f32>;
  var slack: vec4<f32>;
  var ahead: array<vec4<f32>, AT_ONCE>;
  if (is_looked_at) {
    // unroll on hardware
    for (var q = 0u; q < AT_ONCE; q++) {
      // The buffer has room for a multiple of four queries; values beyond the last one are ignored.
      ahead[q] = scores[place + (first + q) * GROUPS];
    }
    // unroll on hardware
    for (var r = 0u; r < 4u; r++) {
      let terms = row_terms_of(row + r);
      scale[r] = terms.x;
      length[r] = terms.y;
      residual[r] = terms.z;
      slack[r] = slack_of(terms);
      floor_x[r] = terms.w - slack[r];
      if (is_usable(row + r)) { usable |= 1u << r; }
    }
  }
  if (index < end - first) {
    let query = first + index;
    var pair = vec4(query_terms[query], vec2(0.0));
    if (FORM >= FORM_QUANTIZED) { pair = vec4(query_terms[2u * query], query_terms[2u * query + 1u]); }
    query_side[index] = query_of(terms_of(pair), value_of(thresholds[query]));
    // The first part of a chunk writes the number of places of a sample.
    if (SAMPLE == 1u && params.sampled > 0u && workgroup.x == 0u) { atomicStore(&counts[query], params.sampled); }
  }
  if (index < QUERIES) { atomicStore(&hits_of[index], 0u); }
  if (index == 0u) { atomicStore(&hit_count, 0u); }
  workgroupBarrier();

  if (is_looked_at) {
    for (var four = first; four < end; four += AT_ONCE) {
      var score = array<vec4<f32>, AT_ONCE>();
      // unroll on hardware
      for (var q = 0u; q < AT_ONCE; q++) { score[q] = ahead[q]; }
      if (four + AT_ONCE < end) {
        // unroll on hardware
        for (var q = 0u; q < AT_ONCE; q++) { ahead[q] = scores[place + (four + AT_ONCE + q) * GROUPS]; }
      }
      // One bit for each row of each query: whether it is kept.
      var staying = 0u;
      // unroll on hardware
      for (var q = 0u; q < AT_ONCE; q++) {
        let side = query_side[four + q - first];
        let lower = lower_end(side, score[q], scale, length, residual, floor_x);
        let near = vec4<u32>(lower <= vec4(side.two.x));
        let bits = near.x | (near.y << 1u) | (near.z << 2u) | (near.w << 3u);
        if (four + q < end) { staying |= (bits & usable) << (4u * q); }
        if (SAMPLE == 1u && four + q < end) {
          // Places are computed: thousands of additions to one counter would wait for each other. A place without a row is
          // ABSENT, and `tighten` drops it.
          let upper = lower + 2.0 * margin_of(side, score[q], length, residual, slack);
          // unroll on hardware
          for (var r = 0u; r < 4u; r++) {
            let is_row = ((usable >> r) & 1u) == 1u;
            let sampled = (number >> countTrailingZeros(params.round_step)) * 4u + r;
            let ends = select(vec2(ABSENT), vec2(key_of(lower[r]), key_of(upper[r])), is_row);
            put(four + q, sampled, select(0u, params.first_slot + row + r, is_row), ends.x, ends.y);
          }
        }
      }
      if (SAMPLE == 1u) { continue; }
      // Few rows are kept, so they are put on lists together at the end.
      while (staying != 0u) {
        let bit = firstTrailingBit(staying);
        staying &= staying - 1u;
        let query = four + (bit >> 2u) - first;
        let hit = atomicAdd(&hit_count, 1u);
        if (hit < HITS) {
          atomicAdd(&hits_of[query], 1u);
          hits[hit] = (query << 10u) | (index << 2u) | (bit & 3u);
        } else {
          keep_one(first + query, group, bit & 3u, atomicAdd(&counts[first + query], 1u));
        }
      }
    }
  }
  // All invocations put the kept rows on the lists together: one addition to the counter of a query, and no waiting for memory
  // in the loop above.
  workgroupBarrier();
  if (index < QUERIES) {
    let found = atomicLoad(&hits_of[index]);
    if (found > 0u) { atomicStore(&hits_of[index], atomicAdd(&counts[first + index], found)); }
  }
  workgroupBarrier();
  for (var hit = index; hit < min(atomicLoad(&hit_count), HITS); hit += WORKGROUP) {
    let query = hits[hit] >> 10u;
    let owner = params.round_start + (workgroup.x * WORKGROUP + ((hits[hit] >> 2u) & 255u)) * params.round_step;
    keep_one(first + query, owner, hits[hit] & 3u, atomicAdd(&hits_of[query], 1u));
  }
}
