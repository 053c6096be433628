// Groups of lanes that sum together through workgroup memory, for adapters without subgroups. A workgroup has at most 256
// invocations, and all of them must reach lanes_sum and lanes_min.
const LANES = 32u;
struct Lanes { index: u32 }
fn lanes_here(index: u32) -> Lanes { return Lanes(index); }
var<workgroup> lane_sums: array<vec4<f32>, 256>;
fn lane_of(lanes: Lanes) -> u32 { return lanes.index % LANES; }
fn lanes_count(lanes: Lanes) -> u32 { return LANES; }
fn group_of(lanes: Lanes) -> u32 { return lanes.index / LANES; }
fn full_groups(lanes: Lanes, workgroup: u32) -> u32 { return workgroup / LANES; }
fn group_count(lanes: Lanes, workgroup: u32) -> u32 { return workgroup / LANES; }
fn lanes_sum(value: vec4<f32>, lanes: Lanes) -> vec4<f32> {
  workgroupBarrier();
  lane_sums[lanes.index] = value;
  workgroupBarrier();
  for (var half = LANES / 2u; half > 0u; half >>= 1u) {
    if (lane_of(lanes) < half) { lane_sums[lanes.index] += lane_sums[lanes.index + half]; }
    workgroupBarrier();
  }
  return lane_sums[group_of(lanes) * LANES];
}
var<workgroup> lane_keys: array<u32, 256>;
fn lanes_min(key: u32, lanes: Lanes) -> u32 {
  workgroupBarrier();
  lane_keys[lanes.index] = key;
  workgroupBarrier();
  for (var half = LANES / 2u; half > 0u; half >>= 1u) {
    if (lane_of(lanes) < half) { lane_keys[lanes.index] = min(lane_keys[lanes.index], lane_keys[lanes.index + half]); }
    workgroupBarrier();
  }
  return lane_keys[group_of(lanes) * LANES];
}
// This invocation's share of a sum, or of a smallest key, over the workgroup: its own value.
fn lanes_share(value: u32, lanes: Lanes) -> u32 { return value; }
fn lanes_least(key: u32, lanes: Lanes) -> u32 { return key; }
