// Widens four 8-bit integers, stored with 128 added, to f16. The bytes become the low bits of the f16 1024 + byte: two
// instructions for two of them, where converting integers to floats is slow on many GPUs. Their order changes, in both
// operands alike.
fn widen_integers(word: u32) -> vec4<f16> {
  let even = (word & 0x00ff00ffu) | 0x64006400u;
  let odd = ((word >> 8u) & 0x00ff00ffu) | 0x64006400u;
  return vec4<f16>(vec4<f32>(unpack2x16float(even), unpack2x16float(odd))) - vec4<f16>(1152.0h);
}
