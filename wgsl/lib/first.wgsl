// The first element with this key among the elements `begin` to `end`, counted from `begin`, in an invocation's share of the
// vectors `from_vector` to `to_vector`; NOTHING where there is none.
fn first_with(key: u32, begin: u32, end: u32, from_vector: u32, to_vector: u32, lane: u32, width: u32) -> u32 {
  var found = NOTHING;
  for (var i = from_vector + lane; i < to_vector; i += 8u * width) {
    var value: array<vec4<f32>, 8>;
    // unroll
    for (var c = 0u; c < 8u; c++) { value[c] = widen(values[min(i + c * width, to_vector - 1u)]); }
    // unroll
    for (var c = 0u; c < 8u; c++) {
      let keys = keys_of(value[c]);
      // unroll
      for (var e = 0u; e < 4u; e++) {
        let element = min(i + c * width, to_vector - 1u) * 4u + e;
        if (canonical(keys[e]) == key && element >= begin && element < end) { found = min(found, element - begin); }
      }
    }
    if (found != NOTHING) { break; }
  }
  return found;
}
