// A threshold in a row whose elements are ordered by key, ties by place, and the elements that pass it.

/// Elements pass that have a key below `key`, or this key and a place up to `place`.
struct Threshold { key: u32, place: u32, count: u32, }

fn passing(keys: vec4<u32>, places: vec4<u32>, limit: Threshold) -> vec4<bool> {
  return (keys < vec4(limit.key)) | ((keys == vec4(limit.key)) & (places <= vec4(limit.place)));
}

fn how_many(are: vec4<bool>) -> u32 {
  let ones = select(vec4(0u), vec4(1u), are);
  return ones.x + ones.y + ones.z + ones.w;
}

fn power_of_two_from(length: u32) -> u32 {
  return select(1u, 1u << (32u - countLeadingZeros(length - 1u)), length > 1u);
}
