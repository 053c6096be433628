// Multiplies values by a factor, in place.
@group(0) @binding(1) var<storage, read_write> values: array<f32>; // [count]

@compute @workgroup_size(WORKGROUP)
fn scale(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let i = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  if (i < params.count) { values[i] *= params.factor; }
}
