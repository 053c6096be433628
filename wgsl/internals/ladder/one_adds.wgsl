// Rung b: one invocation of each workgroup adds its products while the others wait, and the host adds the partial sums.
@group(0) @binding(3) var<storage, read_write> partials: array<f32>; // [workgroups]

var<workgroup> products: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn one_adds(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let place = number * WORKGROUP + index;
  products[index] = 0.0;
  if (place < params.length) { products[index] = a[place] * b[place]; }
  workgroupBarrier();
  // A dispatch of many workgroups may have a few more of them than there are partial sums.
  if (index == 0u && number * WORKGROUP < params.length) {
    var sum = 0.0;
    for (var i = 0u; i < WORKGROUP; i++) { sum += products[i]; }
    partials[number] = sum;
  }
}
