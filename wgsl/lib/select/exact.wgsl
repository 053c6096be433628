// The keys of four words: the words themselves or, with FLOATS, the keys of the numbers they are.
fn exact_keys(words: vec4<u32>) -> vec4<u32> {
  if (FLOATS == 0u) { return words; }
  let floats = bitcast<vec4<f32>>(words);
  return vec4(key_of(floats.x), key_of(floats.y), key_of(floats.z), key_of(floats.w));
}
