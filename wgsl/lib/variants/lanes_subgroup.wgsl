// Groups of lanes that sum together: subgroups, of whatever size the adapter gives.
struct Lanes {
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(subgroup_id) group: u32,
  @builtin(num_subgroups) groups: u32,
}
fn lane_of(lanes: Lanes) -> u32 { return lanes.lane; }
fn lanes_size(lanes: Lanes) -> u32 { return lanes.size; }
fn group_of(lanes: Lanes) -> u32 { return lanes.group; }
// Subgroups may be partly empty, so there may be more of them than the workgroup's size suggests.
fn group_count(lanes: Lanes, workgroup: u32) -> u32 { return lanes.groups; }
fn lanes_sum(value: vec4<f32>, lanes: Lanes) -> vec4<f32> { return subgroupAdd(value); }
fn lanes_min(key: u32, lanes: Lanes) -> u32 { return subgroupMin(key); }
// This invocation's share of a sum over the workgroup: the first lane of a group has the group's sum, the others 0. Few shares
// need an atomic addition.
fn lanes_share(value: u32, lanes: Lanes) -> u32 {
  let sum = subgroupAdd(value);
  return select(0u, sum, lanes.lane == 0u);
}
// The same for the smallest key: lanes other than the first have the largest key.
fn lanes_least(key: u32, lanes: Lanes) -> u32 {
  let least = subgroupMin(key);
  return select(0xffffffffu, least, lanes.lane == 0u);
}
