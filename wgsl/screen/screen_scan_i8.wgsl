// Scores of few narrowed queries against narrowed rows, and the best intervals of each block, from which `pick` takes a threshold.
// An invocation takes a row, so that granules of neighbouring rows are loaded together and nothing is summed across lanes.
// Workgroups that read the same rows for other queries run next to each other, so that memory sends these rows once. A query is
// the sum of PLANES integer vectors, the second in steps of `fraction`, which makes its residual negligible. Slices of the
// queries lie in workgroup memory.
const TILE = BLOCK_ROWS; // rows
const SLICE = 8u; // granules of a vector in a slice

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // [PLANES] narrowed, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // narrowed, blocks of TILE rows
@group(0) @binding(3) var<storage, read_write> scores: array<f32>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(4) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(5) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(6) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(7) var<storage, read_write> best: array<vec2<u32>>; // [queries, blocks]: smallest lower and upper key

override QUERIES: u32 = 1u; // queries at a time: 1, 2, 4, 8 or 16
override PLANES: u32 = 1u;

var<workgroup> query_slice: array<array<array<vec4<u32>, QUERIES_AT_ONCE>, 2>, SLICE>;

// One end of the block's intervals, for each query; then the smallest of each SPAN of them.
const SPAN = TILE / QUERIES_AT_ONCE;
const PITCH = TILE + SPAN; // avoids bank conflicts
var<workgroup> ends: array<array<u32, PITCH>, QUERIES_AT_ONCE>;

// The smallest end of the block's intervals for query number `index` of this pass.
fn smallest_end(index: u32, own: ptr<function, array<u32, QUERIES_AT_ONCE>>) -> u32 {
  // unroll
  for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
    if (q < QUERIES) { ends[q][index] = (*own)[q]; }
  }
  workgroupBarrier();
  let query = index / SPAN;
  var least = ABSENT;
  if (query < QUERIES) {
    for (var i = index % SPAN; i < TILE; i += SPAN) { least = min(least, ends[query][i]); }
  }
  workgroupBarrier();
  if (query < QUERIES) { ends[query][index % SPAN] = least; }
  workgroupBarrier();
  if (index < QUERIES) {
    least = ABSENT;
    for (var i = 0u; i < SPAN; i++) { least = min(least, ends[index][i]); }
  }
  workgroupBarrier();
  return least;
}

@compute @workgroup_size(WORKGROUP)
fn screen_scan_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = params.block_first + workgroup.y * params.block_step;
  let first_row = block * params.granules * TILE + index;
  let first_query = workgroup.x * QUERIES;
  var sums: array<array<i32, QUERIES_AT_ONCE>, 2>;
  for (var start = 0u; start < params.granules; start += SLICE) {
    var row: array<vec4<u32>, SLICE>;
    // unroll
    for (var g = 0u; g < SLICE; g++) {
      row[g] = vec4(0u);
      if (start + g < params.granules) {
        // Stored with 128 added: flipping the highest bit subtracts it.
        row[g] = rows[first_row + (start + g) * TILE] ^ vec4(0x80808080u);
      }
    }
    workgroupBarrier();
    for (var i = index; i < SLICE * PLANES * QUERIES; i += TILE) {
      // The divisors are override constants, so the driver sees powers of two.
      let query = i % QUERIES;
      let plane = (i / QUERIES) % PLANES;
      let g = i / (QUERIES * PLANES);
      var granule = vec4(0u);
      if (start + g < params.granules) {
        granule = queries[plane * params.plane + (start + g) * TILE + first_query + query] ^ vec4(0x80808080u);
      }
      query_slice[g][plane][query] = granule;
    }
    workgroupBarrier();
    // unroll
    for (var g = 0u; g < SLICE; g++) {
      // unroll
      for (var p = 0u; p < 2u; p++) {
        if (p < PLANES) {
          // unroll
          for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
            if (q < QUERIES) {
              let granule = query_slice[g][p][q];
              sums[p][q] += dot4I8Packed(granule.x, row[g].x) + dot4I8Packed(granule.y, row[g].y)
                + dot4I8Packed(granule.z, row[g].z) + dot4I8Packed(granule.w, row[g].w);
            }
          }
        }
      }
    }
  }
  let column = params.column_first + workgroup.y * TILE + index;
  let row = block * TILE + index;
  let is_there = is_usable(row);
  var terms = vec4(0.0);
  if (is_there) { terms = row_side(row_terms[row]); }
  var lowers: array<u32, QUERIES_AT_ONCE>;
  var uppers: array<u32, QUERIES_AT_ONCE>;
  // unroll
  for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
    lowers[q] = ABSENT;
    uppers[q] = ABSENT;
    let query = first_query + q;
    if (q < QUERIES && query < params.queries) {
      var score = f32(sums[0][q]);
      // Both sums are exact as f32, and so is the product.
      if (PLANES == 2u) { score = fma(f32(sums[1][q]), params.fraction, score); }
      scores[score_place(query, column, params.room)] = score;
      if (is_there) {
        let keys = keys_of(query_of(query_terms[query], 0.0), score, terms);
        lowers[q] = keys.x;
        uppers[q] = keys.y;
      }
    }
  }
  let lower = smallest_end(index, &lowers);
  let upper = smallest_end(index, &uppers);
  let query = first_query + index;
  if (index < QUERIES && query < params.queries) {
    best[query * params.blocks + (params.column_first >> BLOCK_SHIFT) + workgroup.y] = vec2(lower, upper);
  }
}
