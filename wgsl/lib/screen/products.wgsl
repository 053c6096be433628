// Multiplies two words of codes: four products of integers, added up. With OF_BITS = 1 it counts the bits that both words have.

/// Codes as they are multiplied. Integers are stored with 128 added: flipping the highest bit subtracts it.
fn codes_of(stored: vec4<u32>) -> vec4<u32> {
  if (OF_BITS == 1u) { return stored; }
  return stored ^ vec4(0x80808080u);
}

fn product(a: u32, b: u32) -> i32 {
  if (OF_BITS == 1u) { return i32(countOneBits(a & b)); }
  return dot4I8Packed(a, b);
}
