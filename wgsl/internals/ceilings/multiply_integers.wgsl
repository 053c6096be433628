// Measures the adapter's rate of 8-bit integer products: four independent chains of packed dot products per invocation, nothing
// else.
@group(0) @binding(1) var<storage, read_write> sums: array<u32>; // [invocations]

@compute @workgroup_size(WORKGROUP)
fn multiply_integers(@builtin(global_invocation_id) id: vec3<u32>) {
  var a = id.x;
  var b = id.x + 1u;
  var c = id.x + 2u;
  var d = id.x + 3u;
  for (var turn = 0u; turn < params.turns; turn++) {
    // unroll
    for (var i = 0u; i < REPEATS; i++) {
      a += bitcast<u32>(dot4I8Packed(a, params.factors));
      b += bitcast<u32>(dot4I8Packed(b, params.factors));
      c += bitcast<u32>(dot4I8Packed(c, params.factors));
      d += bitcast<u32>(dot4I8Packed(d, params.factors));
    }
  }
  sums[id.x] = (a ^ b) ^ (c ^ d);
}
