// Groups the pairs of queries and the lists they probe by list: a counting sort. With PLACE = 0 pairs are counted; a pair's
// rank is the number of pairs of its list counted before it. `list_work` then finds where lists start, and with PLACE = 1
// pairs are put there. The order within a list is arbitrary, and no reported result depends on it.
@group(0) @binding(1) var<storage, read> probed: array<vec2<u32>>; // [queries, probes]: list numbers, u64
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>; // [lists]: initially 0
@group(0) @binding(3) var<storage, read_write> ranks: array<u32>; // [queries, probes]
@group(0) @binding(4) var<storage, read> starts: array<vec2<u32>>; // [lists + 1]: first pair, first block of scores
@group(0) @binding(5) var<storage, read> list_tiles: array<u32>; // [lists + 1]: where the tiles of a list start
@group(0) @binding(6) var<storage, read_write> grouped: array<u32>; // [queries * probes]: query numbers, list by list
@group(0) @binding(7) var<storage, read_write> pairs: array<vec4<u32>>; // [queries, probes], as `winnow` reads them

override PLACE: u32 = 0u;

@compute @workgroup_size(WORKGROUP)
fn group(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let pair = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  if (pair >= params.pairs) { return; }
  let list = probed[pair].x;
  // A query that was refused has no lists.
  let is_list = list < params.lists;
  if (PLACE == 0u) {
    if (is_list) { ranks[pair] = atomicAdd(&counts[list], 1u); }
    return;
  }
  if (!is_list) {
    pairs[pair] = vec4(0u);
    return;
  }
  let rank = ranks[pair];
  let start = starts[list];
  let first_tile = list_tiles[list];
  let tiles = list_tiles[list + 1u] - first_tile;
  grouped[start.x + rank] = pair / params.probes;
  pairs[pair] = vec4(start.y + rank / params.height * tiles, tiles, first_tile, rank % params.height);
}
