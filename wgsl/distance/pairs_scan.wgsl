// Distances of few queries to many rows. A group of lanes takes four rows at a time, its lanes side by side along the
// dimension, so rows are read once and in whole cache lines. Workgroups that take the same rows for other queries run side by
// side, so that they find these rows in a cache. `distance_scan` adds up in the same way, but its rows, their places, the last step of its
// sums and what it writes are others: of a common text, little more than the innermost loop would remain.
@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [queries, query_pitch]
@group(0) @binding(2) var<storage, read> rows: array<vec4<f32>>; // [rows, row_pitch]
@group(0) @binding(3) var<storage, read> query_norms: array<vec2<f32>>; // [queries]: squared, inverse; read for cosine alone
@group(0) @binding(4) var<storage, read> row_norms: array<vec2<f32>>; // [rows]
@group(0) @binding(5) var<storage, read_write> distances: array<f32>; // [queries, distance_stride]

override QUERIES: u32 = 1u; // queries at a time, up to QUERIES_AT_ONCE

@compute @workgroup_size(WORKGROUP)
fn pairs_scan(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let per_workgroup = full_groups(lanes, WORKGROUP) * 4u;
  let writes = lane_of(lanes) == 0u && group_of(lanes) * 4u < per_workgroup;
  let first_query = params.first_query + workgroup.x * QUERIES;
  let last_query = params.queries - 1u;
  let last_row = params.rows - 1u;
  // All invocations take the same number of turns, because lanes_sum may contain barriers.
  for (var start = workgroup.y * per_workgroup; start < params.rows; start += workgroups.y * per_workgroup) {
    let row = start + group_of(lanes) * 4u;
    var places = array<u32, 4>();
    // unroll
    for (var r = 0u; r < 4u; r++) {
      // Beyond the last row the last one is loaded again, and its distances are not written.
      places[r] = min(row + r, last_row) * params.row_pitch;
    }
    var sums = array<array<vec4<f32>, 4>, QUERIES_AT_ONCE>();
    for (var i = lane_of(lanes); i < params.vectors; i += lanes_count(lanes)) {
      var four = array<vec4<f32>, 4>();
      // unroll
      for (var r = 0u; r < 4u; r++) {
        four[r] = rows[places[r] + i];
      }
      // unroll
      for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
        if (q < QUERIES) {
          let query = queries[min(first_query + q, last_query) * params.query_pitch + i];
          // unroll
          for (var r = 0u; r < 4u; r++) {
            if (METRIC <= PAIRS_DIFFERENCES) {
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
        let total = lanes_sum(
          vec4(across(sums[q][0]), across(sums[q][1]), across(sums[q][2]), across(sums[q][3])),
          lanes,
        );
        let query = first_query + q;
        if (writes && query < params.queries) {
          var query_inverse = 1.0;
          if (METRIC == PAIRS_DIVIDED) { query_inverse = query_norms[query].y; }
          // unroll
          for (var r = 0u; r < 4u; r++) {
            var scale = query_inverse;
            if (METRIC == PAIRS_DIVIDED) { scale *= row_norms[row + r].y; }
            if (row + r < params.rows) {
              distances[query * params.distance_stride + row + r] = pair_value(total[r], scale);
            }
          }
        }
      }
    }
  }
}
