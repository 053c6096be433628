// Scores the rows of the lists that queries probe, and collects those that thresholds do not exclude. For few queries a list, which
// are not worth a tile. SHARE workgroups take a list for a query, one tile after the other.
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

@compute @workgroup_size(WORKGROUP)
fn screen_probes(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let pair = number / SHARE;
  let query = pair / params.probes;
  if (query >= params.queries) { return; }
  let list = probed[query * params.stride + params.first + pair % params.probes].x;
  // A query that was refused has no lists.
  if (list >= params.lists) { return; }
  let end = tables[list + 1u];
  for (var tile = tables[list] + number % SHARE; tile < end; tile += SHARE) {
    let row = row_of(tables[params.tiles + tile * PAGES + index / PAGE], index);
    let is_there = is_usable(row);
    // Loaded before the products, so that nothing waits for memory after them.
    let terms = row_side(row_terms[min(row, params.rows - 1u)]);
    let side = query_of(query_terms_of(query), 0.0);
    let limit = threshold_of(query);
    let keys = keys_of(side, score_of(query, row, index), terms);
    if (is_there && keys.x <= limit) { put(query, atomicAdd(&states[query], 1u), params.first_slot + row, keys.x, keys.y); }
  }
}
