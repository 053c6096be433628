// A query's threshold becomes the k-th smallest upper bound of its list, and rows that lie above it for certain leave
// the list. One workgroup a query. A list that overflowed marks its query, which is then searched another way.
@group(0) @binding(1) var<storage, read_write> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(2) var<storage, read_write> counts: array<u32>; // [queries]
@group(0) @binding(3) var<storage, read_write> lists: array<u32>; // [3, queries, capacity]: slots, lower, upper keys
@group(0) @binding(4) var<storage, read_write> overflowed: array<u32>; // [queries]: 1 when rows were lost

var<workgroup> list_length: u32;
var<workgroup> threshold: u32;
var<workgroup> kept: atomic<u32>;

@compute @workgroup_size(256)
fn tighten(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) {
    let count = counts[query];
    if (count > params.capacity) { overflowed[query] = 1u; }
    list_length = min(count, params.capacity);
    threshold = thresholds[query];
    atomicStore(&kept, 0u);
  }
  let length = workgroupUniformLoad(&list_length);
  var limit = workgroupUniformLoad(&threshold);
  let list = query * params.capacity;
  if (length >= params.k) {
    var prefix = 0u;
    var rank = params.k - 1u;
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
      histogram_clear(index);
      for (var i = index; i < length; i += 256u) {
        let key = lists[2u * params.plane + list + i];
        // The digits above this one: two shifts, because a shift by 32 is none.
        if (((key ^ prefix) >> u32(shift)) >> 8u == 0u) {
          atomicAdd(&histogram[(key >> u32(shift)) & 255u], 1u);
        }
      }
      let found = histogram_pick(index, rank);
      prefix |= found.x << u32(shift);
      rank -= found.y;
    }
    limit = min(limit, prefix);
  }
  // In place: a piece of the list is in registers before any of it is written.
  for (var start = 0u; start < length; start += 256u) {
    let i = start + index;
    var slot = 0u;
    var lower = ABSENT;
    var upper = 0u;
    if (i < length) {
      slot = lists[list + i];
      lower = lists[params.plane + list + i];
      upper = lists[2u * params.plane + list + i];
    }
    storageBarrier();
    workgroupBarrier();
    if (lower <= limit) {
      let place = list + atomicAdd(&kept, 1u);
      lists[place] = slot;
      lists[params.plane + place] = lower;
      lists[2u * params.plane + place] = upper;
    }
    storageBarrier();
    workgroupBarrier();
  }
  if (index == 0u) {
    thresholds[query] = limit;
    counts[query] = atomicLoad(&kept);
  }
}
