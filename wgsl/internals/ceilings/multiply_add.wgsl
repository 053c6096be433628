// Measures the adapter's rate of f32 multiply-adds: sixteen independent chains of fma per invocation, nothing else.
@group(0) @binding(1) var<storage, read_write> sums: array<vec4<f32>>; // [invocations]

@compute @workgroup_size(WORKGROUP)
fn multiply_add(@builtin(global_invocation_id) id: vec3<u32>) {
  let factor = vec4(params.factor);
  let start = vec4(f32(id.x));
  var a = start;
  var b = start + 1.0;
  var c = start + 2.0;
  var d = start + 3.0;
  for (var turn = 0u; turn < params.turns; turn++) {
    // unroll
    for (var i = 0u; i < REPEATS; i++) {
      a = fma(a, factor, factor);
      b = fma(b, factor, factor);
      c = fma(c, factor, factor);
      d = fma(d, factor, factor);
    }
  }
  sums[id.x] = (a + b) + (c + d);
}
