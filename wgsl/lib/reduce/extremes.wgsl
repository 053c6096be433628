// Keys whose minimum is the result. They are compared as integers, because WGSL lets an implementation assume that no NaN and
// no infinity occurs. A NaN has a key behind all others under min and max, and before them under the largest magnitude.
override OPERATION: u32 = 0u;

fn keys_of(four: vec4<f32>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(four);
  if (OPERATION == OPERATION_MAX_ABS) { return ~(bits & vec4(0x7fffffffu)); }
  // As signed integers these order as the numbers do, from ORDERED_MIN (-inf) to ORDERED_MAX (+inf); NaNs lie outside.
  let ordered = bits ^ (bitcast<vec4<u32>>(bitcast<vec4<i32>>(bits) >> vec4(31u)) & vec4(0x7fffffffu));
  if (OPERATION == OPERATION_MAX || OPERATION == OPERATION_ARG_MAX) { return vec4(ORDERED_MAX) - ordered; }
  return ordered - vec4(ORDERED_MIN);
}

// -0 and +0 are equal and get one key. Their keys are neighbours under min and under max.
fn canonical(keys: vec4<u32>) -> vec4<u32> { return select(keys, vec4(ZERO_KEY), keys == vec4(ZERO_KEY + 1u)); }
