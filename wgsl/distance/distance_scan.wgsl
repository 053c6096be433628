// Scores of few queries against many rows. A group of lanes takes four rows at a time, its lanes side by side along the
// dimension, so rows are read once and in whole cache lines. A score is the dot product, or with DIRECT = 1 the sum of
// (q - x)^2. Scores only choose candidates: their order of summation depends on the adapter.
@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [queries, dim]
@group(0) @binding(2) var<storage, read> rows: array<Row>; // [rows, dim]
@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [blocks, room, BLOCK_ROWS]

override DIRECT: u32 = 0u;
override QUERIES: u32 = 1u; // queries at a time, up to QUERIES_AT_ONCE

@compute @workgroup_size(WORKGROUP)
fn distance_scan(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let per_workgroup = full_groups(lanes, WORKGROUP) * 4u;
  let writes = lane_of(lanes) == 0u && group_of(lanes) * 4u < per_workgroup;
  let first_query = workgroup.y * QUERIES;
  let vectors = params.vectors;
  // All invocations take the same number of turns, because lanes_sum may contain barriers.
  for (var start = workgroup.x * per_workgroup; start < params.part_columns; start += workgroups.x * per_workgroup) {
    let column = start + group_of(lanes) * 4u;
    let block = params.block_first + (column >> BLOCK_SHIFT) * params.block_step;
    let row = (block << BLOCK_SHIFT) + (column & (BLOCK_ROWS - 1u));
    var sums = array<array<vec4<f32>, 4>, QUERIES_AT_ONCE>();
    for (var i = lane_of(lanes); i < vectors; i += lanes_count(lanes)) {
      var four = array<vec4<f32>, 4>();
      // unroll
      for (var r = 0u; r < 4u; r++) {
        four[r] = four_of(row + r, i);
      }
      // unroll
      for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
        if (q < QUERIES) {
          let query = queries[(first_query + q) * vectors + i];
          // unroll
          for (var r = 0u; r < 4u; r++) {
            if (DIRECT == 1u) {
              let difference = query - four[r];
              sums[q][r] = fma(difference, difference, sums[q][r]);
            } else {
              sums[q][r] = fma(query, four[r], sums[q][r]);
            }
          }
        }
      }
    }
    // unroll
    for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
      if (q < QUERIES) {
        let ones = vec4(1.0);
        let total = lanes_sum(
          vec4(dot(sums[q][0], ones), dot(sums[q][1], ones), dot(sums[q][2], ones), dot(sums[q][3], ones)),
          lanes,
        );
        if (writes && column < params.part_columns) {
          scores[score_place(first_query + q, params.column_first + column, params.room) >> 2u] = total;
        }
      }
    }
  }
}
