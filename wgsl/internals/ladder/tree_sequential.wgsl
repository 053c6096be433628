// Rung f: the first half adds the second half, then the first quarter the second. Whole subgroups work or rest, and
// neighbouring invocations touch neighbouring words.
@group(0) @binding(3) var<storage, read_write> partials: array<f32>; // [workgroups]

var<workgroup> sums: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn tree_sequential(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let place = number * WORKGROUP + index;
  sums[index] = 0.0;
  if (place < params.length) { sums[index] = a[place] * b[place]; }
  workgroupBarrier();
  for (var stride = WORKGROUP / 2u; stride > 0u; stride /= 2u) {
    if (index < stride) { sums[index] += sums[index + stride]; }
    workgroupBarrier();
  }
  if (index == 0u && place < params.length) { partials[number] = sums[0]; }
}
