// The rounding errors of sums and products.

// The same number, by way of an integer that only the host knows to be 0. A compiler that treats floats as real numbers
// (Metal's does by default) would conclude that rounding errors are 0, and drop them.
fn opaque(four: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(four) ^ vec4(params.zero)); }

// The rounding error of sum = a + b (Knuth, TAOCP 2, 4.2.2, theorem B).
fn rounded_off(a: vec4<f32>, b: vec4<f32>, sum: vec4<f32>) -> vec4<f32> {
  let b_part = opaque(sum - a);
  let a_part = opaque(sum - b_part);
  return opaque(a - a_part) + opaque(b - b_part);
}

// The rounding error of product = a b, to within 2^-32 of itself: by halves of 12 bits, without fused multiply-add (Dekker 1971).
fn product_rounded_off(a: vec4<f32>, b: vec4<f32>, product: vec4<f32>) -> vec4<f32> {
  let a_high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(a) & vec4(0xfffff000u));
  let b_high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & vec4(0xfffff000u));
  let a_low = opaque(a - a_high);
  let b_low = opaque(b - b_high);
  let high = opaque(opaque(a_high * b_high) - product);
  let middle = opaque(opaque(high + opaque(a_high * b_low)) + opaque(a_low * b_high));
  return middle + opaque(a_low * b_low);
}
