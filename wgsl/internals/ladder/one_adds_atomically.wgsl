// Rung c: like rung b, but the workgroups add to one total. The host has nothing left to add, but all workgroups meet at one
// address.
@group(0) @binding(3) var<storage, read_write> total: array<Total>; // [1]

var<workgroup> products: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn one_adds_atomically(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let place = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  products[index] = 0.0;
  if (place < params.length) { products[index] = a[place] * b[place]; }
  workgroupBarrier();
  if (index == 0u) {
    var sum = 0.0;
    for (var i = 0u; i < WORKGROUP; i++) { sum += products[i]; }
    add_to_total(sum);
  }
}
