// Groups queries by the lists they probe: a counting sort. With PLACE = 0 pairs of a query and a list are counted; a pair's rank
// is the number of pairs of its list counted before it. `list_work` then finds where the blocks of lists start, and with PLACE = 1
// queries go to their blocks. The order within a list is arbitrary, and no reported result depends on it.
//
// A block is a tile of a list with up to `height` of the queries that probe it: words for these queries, the tile's four pages,
// and the number of the queries.
@group(0) @binding(1) var<storage, read> probed: array<vec2<u32>>; // [queries, stride]: list numbers, u64
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>; // [lists]: initially 0
@group(0) @binding(3) var<storage, read_write> ranks: array<u32>; // [queries, probes]
@group(0) @binding(4) var<storage, read> starts: array<u32>; // [lists + 1]: first block
@group(0) @binding(5) var<storage, read> tables: array<u32>; // [lists + 1]: where the tiles of a list start; then four pages a tile
@group(0) @binding(6) var<storage, read_write> blocks: array<u32>; // how many; from HEADER on the blocks

override PLACE: u32 = 0u;

@compute @workgroup_size(WORKGROUP)
fn group(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let pair = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  if (pair >= params.queries * params.probes) { return; }
  let query = pair / params.probes;
  let list = probed[query * params.stride + params.first + pair % params.probes].x;
  // A query that was refused has no lists.
  let is_list = list < params.lists;
  if (PLACE == 0u) {
    if (is_list) { ranks[pair] = atomicAdd(&counts[list], 1u); }
    return;
  }
  if (pair == 0u) { blocks[0] = starts[params.lists]; }
  if (!is_list) { return; }
  let rank = ranks[pair];
  let place = rank % params.height;
  let is_last = place + 1u == params.height || rank + 1u == atomicLoad(&counts[list]);
  let first_tile = tables[list];
  let tiles = tables[list + 1u] - first_tile;
  for (var t = 0u; t < tiles; t++) {
    let entry = HEADER + (starts[list] + rank / params.height * tiles + t) * (params.height + PAGES + 1u);
    blocks[entry + place] = query;
    if (is_last) { blocks[entry + params.height + PAGES] = place + 1u; }
    if (place == 0u) {
      // unroll on hardware
      for (var p = 0u; p < PAGES; p++) { blocks[entry + params.height + p] = tables[params.tiles + (first_tile + t) * PAGES + p]; }
    }
  }
}
