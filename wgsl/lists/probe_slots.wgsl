// Appends the slots of the lists that a query probes, those of one segment, to the query's list of slots. One workgroup per
// query.
@group(0) @binding(1) var<storage, read> probed: array<vec2<u32>>; // [queries, probes]: list numbers, u64
@group(0) @binding(2) var<storage, read> list_tiles: array<u32>; // [lists + 1]: where the tiles of a list start
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>; // [tiles]: four pages each
@group(0) @binding(4) var<storage, read> allowed: array<u32>; // one bit per slot of the index
@group(0) @binding(5) var<storage, read_write> counts: array<u32>; // [queries]
@group(0) @binding(6) var<storage, read_write> candidates: array<u32>; // [queries, capacity]: slots

const BESIDE = 8u; // lists that a workgroup visits at the same time

var<workgroup> kept: atomic<u32>;

@compute @workgroup_size(WORKGROUP)
fn probe_slots(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) { atomicStore(&kept, select(counts[query], 0u, params.is_first != 0u)); }
  workgroupBarrier();
  let lane = index & 31u;
  for (var probe = index >> 5u; probe < params.probes; probe += BESIDE) {
    let list = probed[query * params.probes + probe].x;
    // A query that was refused has no lists.
    if (list >= params.lists) { continue; }
    for (var tile = list_tiles[list]; tile < list_tiles[list + 1u]; tile++) {
      let page = tiles[tile][lane >> 3u];
      if (page == NO_PAGE) { continue; }
      let shift = (lane & 7u) * 4u;
      var bits = (allowed[page] >> shift) & 15u;
      if (bits == 0u) { continue; }
      var place = atomicAdd(&kept, countOneBits(bits));
      while (bits != 0u) {
        if (place < params.capacity) { candidates[query * params.capacity + place] = page * PAGE + shift + firstTrailingBit(bits); }
        bits &= bits - 1u;
        place += 1u;
      }
    }
  }
  let all = workgroupUniformLoad(&kept);
  if (index == 0u) { counts[query] = all; }
}
