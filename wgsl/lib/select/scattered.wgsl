/// A pseudorandom number in [0, 1).
fn scattered(i: u32) -> f32 {
  var x = i * 0x9e3779b9u;
  x = (x ^ (x >> 16u)) * 0x7feb352du;
  x = (x ^ (x >> 15u)) * 0x846ca68bu;
  return f32((x ^ (x >> 16u)) >> 8u) * 5.9604645e-8;
}
