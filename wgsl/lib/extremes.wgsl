// Keys of which the smallest is wanted, in integers alone, because WGSL lets an implementation assume that no NaN and no
// infinity occurs. Keys of NaN are behind all others for min and max, and before them for the largest magnitude.
override OPERATION: u32 = 0u; // 0: dot, 1: sum, 2: sum of magnitudes, 3: sum of squares, 4: largest magnitude, 5: min, 6: max, 7: argmin, 8: argmax

/// The largest key: of nothing, or of one NaN.
const NOTHING = 0xffffffffu;

/// Keys of min and max above it stand for no number.
const LARGEST_NUMBER = 0xff000001u;

fn keys_of(four: vec4<f32>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(four);
  if (OPERATION == 4u) { return ~(bits & vec4(0x7fffffffu)); }
  // As signed integers these are in the order of the numbers, from 0x807fffff (-inf) to 0x7f800000 (+inf); NaNs are outside.
  let ordered = bits ^ (bitcast<vec4<u32>>(bitcast<vec4<i32>>(bits) >> vec4(31u)) & vec4(0x7fffffffu));
  if (OPERATION == 6u || OPERATION == 8u) { return vec4(0x7f800000u) - ordered; }
  return ordered - vec4(0x807fffffu);
}

// -0 and +0 are neighbours in either order, and equal: they get one key.
fn canonical(keys: vec4<u32>) -> vec4<u32> { return select(keys, vec4(0x7f800000u), keys == vec4(0x7f800001u)); }
