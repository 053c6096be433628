// Keys of which the smallest is wanted, in integers alone, because WGSL lets an implementation assume that no NaN and no
// infinity occurs. Keys of NaN are behind all others for min and max, and before them for the largest magnitude.
override OPERATION: u32 = 0u;

fn keys_of(four: vec4<f32>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(four);
  if (OPERATION == OPERATION_MAX_ABS) { return ~(bits & vec4(0x7fffffffu)); }
  // As signed integers these are in the order of the numbers, from 0x807fffff (-inf) to 0x7f800000 (+inf); NaNs are outside.
  let ordered = bits ^ (bitcast<vec4<u32>>(bitcast<vec4<i32>>(bits) >> vec4(31u)) & vec4(0x7fffffffu));
  if (OPERATION == OPERATION_MAX || OPERATION == OPERATION_ARG_MAX) { return vec4(ORDERED_MAX) - ordered; }
  return ordered - vec4(ORDERED_MIN);
}

// -0 and +0 are neighbours in either order, and equal: they get one key.
fn canonical(keys: vec4<u32>) -> vec4<u32> { return select(keys, vec4(ZERO_KEY), keys == vec4(ZERO_KEY + 1u)); }
