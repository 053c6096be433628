// Sums over sixteen invocations in a fixed order, through workgroup memory. The order is the same on every adapter and never
// depends on subgroups, which makes reported distances repeatable bit for bit. All invocations of the workgroup must reach
// sixteen_sum.
var<workgroup> sixteen: array<vec4<f32>, WORKGROUP>;

fn sixteen_sum(index: u32, value: vec4<f32>) -> vec4<f32> {
  workgroupBarrier();
  sixteen[index] = value;
  workgroupBarrier();
  for (var half = WIDTH / 2u; half > 0u; half >>= 1u) {
    if (index % WIDTH < half) { sixteen[index] += sixteen[index + half]; }
    workgroupBarrier();
  }
  return sixteen[index - index % WIDTH];
}
