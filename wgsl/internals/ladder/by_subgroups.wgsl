// Rung i: sixteen products per invocation, then one instruction adds a subgroup's lanes. One barrier is left, for the
// subgroups of the workgroup.
@group(0) @binding(3) var<storage, read_write> total: array<Total>; // [1]

// One sum per subgroup; there are never more of them than invocations.
var<workgroup> sums: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn by_subgroups(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let first = workgroup_number(workgroup, workgroups) * WORKGROUP * COARSENING + lanes.index;
  var sum = 0.0;
  for (var i = 0u; i < COARSENING; i++) {
    let place = first + i * WORKGROUP;
    if (place < params.length) { sum += a[place] * b[place]; }
  }
  sum = lanes_sum(vec4(sum, 0.0, 0.0, 0.0), lanes).x;
  if (lane_of(lanes) == 0u) { sums[group_of(lanes)] = sum; }
  workgroupBarrier();
  if (lanes.index == 0u) {
    for (var group = 1u; group < group_count(lanes, WORKGROUP); group++) { sum += sums[group]; }
    add_to_total(sum);
  }
}
