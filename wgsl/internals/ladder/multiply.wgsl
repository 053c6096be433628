// Rung a: every invocation multiplies, and the host adds. Three numbers pass through memory for each product, and one of
// them crosses the bus as well.
@group(0) @binding(3) var<storage, read_write> products: array<f32>; // [length]

@compute @workgroup_size(WORKGROUP)
fn multiply(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let place = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  if (place < params.length) { products[place] = a[place] * b[place]; }
}
