// Reads a row once, with several vectors in flight, and passes elements that may lie below a threshold to the kernel's `keep`.

/// A cheap key: too small for -0 and NaN, exact for all other numbers. An element it rejects is certainly above the threshold.
fn screened(words: vec4<u32>) -> vec4<u32> {
  if (FLOATS == 0u) { return words; }
  return words ^ (bitcast<vec4<u32>>(bitcast<vec4<i32>>(words) >> vec4(31u)) | vec4(0x80000000u));
}

/// Which elements of a vector lie between `begin` and `end` and pass.
fn passing_of(words: vec4<u32>, vector: u32, begin: u32, end: u32, limit: Threshold) -> vec4<bool> {
  let at = vec4(vector * 4u) + vec4(0u, 1u, 2u, 3u);
  let inside = (at >= vec4(begin)) & (at < vec4(end));
  return inside & passing(exact_keys(words), at - vec4(begin), limit);
}

/// Streams the elements `begin` to `end` of the buffer that lie in the vectors `from_vector` to `to_vector`. `end` may lie behind
/// the buffer's last whole vector; `to_vector` does not.
fn stream(begin: u32, end: u32, from_vector: u32, to_vector: u32, limit: Threshold, index: u32) {
  for (var i = from_vector + index; i < to_vector; i += 4u * WORKGROUP) {
    let last = to_vector - 1u;
    let a = values[i];
    let b = values[min(i + WORKGROUP, last)];
    let c = values[min(i + 2u * WORKGROUP, last)];
    let d = values[min(i + 3u * WORKGROUP, last)];
    offer(a, i, begin, end, limit);
    if (i + WORKGROUP <= last) { offer(b, i + WORKGROUP, begin, end, limit); }
    if (i + 2u * WORKGROUP <= last) { offer(c, i + 2u * WORKGROUP, begin, end, limit); }
    if (i + 3u * WORKGROUP <= last) { offer(d, i + 3u * WORKGROUP, begin, end, limit); }
  }
}

fn offer(words: vec4<u32>, vector: u32, begin: u32, end: u32, limit: Threshold) {
  if (any(screened(words) <= vec4(limit.key))) {
    let passes = passing_of(words, vector, begin, end, limit);
    if (any(passes)) { keep(exact_keys(words), vec4(vector * 4u - begin) + vec4(0u, 1u, 2u, 3u), passes); }
  }
}

/// Offers the elements behind the last whole vector of a buffer, three at most.
fn offer_tail(begin: u32, end: u32, limit: Threshold, index: u32) {
  let at = max(begin, arrayLength(&values) * 4u) + index;
  if (index < 3u && at < end) {
    var word = words[at];
    if (FLOATS == 1u) { word = key_of(bitcast<f32>(word)); }
    let keys = vec4(word, vec3(ABSENT));
    let places = vec4(at - begin);
    let passes = passing(keys, places, limit) & vec4(true, false, false, false);
    if (passes.x) { keep(keys, places, passes); }
  }
}
