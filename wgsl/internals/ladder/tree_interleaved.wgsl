// Rung e: the tree of rung d in workgroup memory. Still only every second, fourth, eighth, ... invocation adds, so subgroups
// run with few active lanes, and the strides hit the same memory banks.
@group(0) @binding(3) var<storage, read_write> partials: array<f32>; // [workgroups]

var<workgroup> sums: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn tree_interleaved(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let place = number * WORKGROUP + index;
  sums[index] = 0.0;
  if (place < params.length) { sums[index] = a[place] * b[place]; }
  workgroupBarrier();
  for (var stride = 1u; stride < WORKGROUP; stride *= 2u) {
    if (index % (2u * stride) == 0u) { sums[index] += sums[index + stride]; }
    workgroupBarrier();
  }
  if (index == 0u && place < params.length) { partials[number] = sums[0]; }
}
