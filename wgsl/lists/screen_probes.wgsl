// Scores the rows of the lists that queries probe, and collects those that thresholds do not exclude. One workgroup per query
// and list: for few queries a list, which are not worth a tile.
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

@compute @workgroup_size(WORKGROUP)
fn screen_probes(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let pair = workgroup_number(workgroup, workgroups);
  let query = pair / params.probes;
  if (query >= params.queries) { return; }
  let list = probed[query * params.stride + params.first + pair % params.probes].x;
  // A query that was refused has no lists.
  if (list >= params.lists) { return; }
  let end = tables[list + 1u];
  for (var tile = tables[list]; tile < end; tile += BESIDE) {
    let row = own_row(tile, end, index);
    keep_row(query, row, score_of(query, row, index));
  }
}
