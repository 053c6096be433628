// Order-preserving keys: a < b for numbers exactly when key_of(a) < key_of(b) as u32. Kernels keep keys instead of floats,
// because WGSL lets an implementation assume that no NaN and no infinity occurs.

fn key_of(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let magnitude = bits & 0x7fffffffu;
  // -0 becomes +0 by its bits: a compiler may drop an addition of 0. A NaN has no place among numbers.
  if (magnitude == 0u) { return 0x80000000u; }
  if (magnitude > 0x7f800000u) { return ABSENT; }
  return select(bits | 0x80000000u, ~bits, bits != magnitude);
}

fn value_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, (key & 0x80000000u) != 0u));
}
