// Scores of few narrowed queries against narrowed rows. An invocation takes a row, so that granules of neighbouring rows are
// loaded together and nothing is summed across lanes. A query is the sum of PLANES integer vectors, the second in steps of
// `fraction`, which makes its residual negligible. Slices of the queries lie in workgroup memory. Scores only nominate.
const TILE = BLOCK_ROWS; // rows
const SLICE = 8u; // granules of a vector in a slice

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // [PLANES] narrowed, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // narrowed, blocks of TILE rows
@group(0) @binding(3) var<storage, read_write> scores: array<f32>; // [blocks, room, BLOCK_ROWS]

override QUERIES: u32 = 1u; // queries at a time: 1, 2, 4 or 8
override PLANES: u32 = 1u;

var<workgroup> query_slice: array<array<array<vec4<u32>, QUERIES_AT_ONCE>, 2>, SLICE>;

@compute @workgroup_size(WORKGROUP)
fn screen_scan_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = params.block_first + workgroup.x * params.block_step;
  let first_row = block * params.granules * TILE + index;
  let first_query = workgroup.y * QUERIES;
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
  let column = params.column_first + workgroup.x * TILE + index;
  // unroll
  for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
    if (q < QUERIES) {
      var score = f32(sums[0][q]);
      // Both sums are exact as f32, and so is the product.
      if (PLANES == 2u) { score = fma(f32(sums[1][q]), params.fraction, score); }
      scores[score_place(first_query + q, column, params.room)] = score;
    }
  }
}
