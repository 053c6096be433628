// Copies the entries of all queries' lists into one list, without room between them, for the host to read: candidates, or rows that were found.
// Queries come in any order. One with more entries than its own list holds gives none. One workgroup per query.
@group(0) @binding(1) var<storage, read> counts: array<u32>; // [queries]
@group(0) @binding(2) var<storage, read> heads: array<u32>; // [queries, capacity]: the first word of each entry
@group(0) @binding(3) var<storage, read> rests: array<u32>; // from `params.offset` on [queries, capacity, words - 1]: the others
@group(0) @binding(4) var<storage, read_write> starts: array<atomic<u32>>; // [1 + queries]: how many were copied, and where those of each query start
@group(0) @binding(5) var<storage, read_write> compacted: array<u32>; // [queries * capacity, words]

var<workgroup> first: u32;

@compute @workgroup_size(WORKGROUP)
fn compact(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  let count = counts[query];
  let length = select(count, 0u, count > params.capacity);
  if (index == 0u) {
    first = atomicAdd(&starts[0], length);
    atomicStore(&starts[1u + query], first);
  }
  let start = workgroupUniformLoad(&first);
  for (var i = index; i < length; i += WORKGROUP) {
    let entry = query * params.capacity + i;
    let place = (start + i) * params.words;
    compacted[place] = heads[entry];
    let rest = params.offset + entry * (params.words - 1u);
    if (params.words > 1u) { compacted[place + 1u] = rests[rest]; }
    if (params.words > 2u) { compacted[place + 2u] = rests[rest + 1u]; }
  }
}
