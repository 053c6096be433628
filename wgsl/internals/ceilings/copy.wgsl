// Copies memory, to measure how fast the adapter does it. Neighbouring invocations copy neighbouring vectors.
@group(0) @binding(1) var<storage, read> original: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> duplicate: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP)
fn copy(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup_number(workgroup, workgroups) * (VECTORS_AN_INVOCATION * WORKGROUP) + index;
  // unroll
  for (var i = 0u; i < VECTORS_AN_INVOCATION; i++) {
    let place = first + i * WORKGROUP;
    if (place < params.vectors) { duplicate[place] = original[place]; }
  }
}
