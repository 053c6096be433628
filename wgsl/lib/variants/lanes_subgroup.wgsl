// Groups of lanes that sum together: subgroups, of whatever size the adapter gives. A driver may leave some partly empty, so lanes
// are counted: a stride of the whole size would leave out what absent lanes had to take.
struct Lanes { index: u32, lane: u32, count: u32, size: u32, group: u32, groups: u32 }
fn lanes_here(index: u32, lane: u32, size: u32, group: u32, groups: u32) -> Lanes {
  var lanes = Lanes(index, lane, size, size, group, groups);
  // With as many groups as full ones would be, all are full: drivers know that as they compile, and then the stride as well.
  if (groups * size != WORKGROUP) {
    lanes.lane = subgroupExclusiveAdd(1u);
    lanes.count = subgroupAdd(1u);
  }
  return lanes;
}
fn lane_of(lanes: Lanes) -> u32 { return lanes.lane; }
// The lanes of this group that run.
fn lanes_count(lanes: Lanes) -> u32 { return lanes.count; }
// Every workgroup has at least this many groups, which share its work. Groups beyond them write nothing.
fn full_groups(lanes: Lanes, workgroup: u32) -> u32 { return max(workgroup / lanes.size, 1u); }
fn group_of(lanes: Lanes) -> u32 { return lanes.group; }
// The groups of this workgroup, partly empty ones among them.
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
