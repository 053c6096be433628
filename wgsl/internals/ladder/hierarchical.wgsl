// Rungs g and h: the tree of rung f in each workgroup, an atomic addition across them. From rung h on an invocation adds
// several products itself before the tree begins, which saves as many trees, barriers and atomic additions.
@group(0) @binding(3) var<storage, read_write> total: array<Total>; // [1]

override COARSENING: u32 = 1u;

var<workgroup> sums: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn hierarchical(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup_number(workgroup, workgroups) * WORKGROUP * COARSENING + index;
  var sum = 0.0;
  for (var i = 0u; i < COARSENING; i++) {
    // An invocation's products lie a workgroup apart, so neighbouring invocations read neighbouring elements.
    let place = first + i * WORKGROUP;
    if (place < params.length) { sum += a[place] * b[place]; }
  }
  sums[index] = sum;
  workgroupBarrier();
  for (var stride = WORKGROUP / 2u; stride > 0u; stride /= 2u) {
    if (index < stride) { sums[index] += sums[index + stride]; }
    workgroupBarrier();
  }
  if (index == 0u) { add_to_total(sums[0]); }
}
