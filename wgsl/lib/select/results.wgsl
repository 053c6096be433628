// Writes the results of a row from the ordered pool, and decides how many held elements are worth ordering.

/// The most elements worth ordering: finding fewer takes longer than ordering these.
fn spread_most(k: u32) -> u32 { return min(max(64u, 4u * power_of_two_from(k)), POOL_ROOM); }

fn only_passing(keys: Held, places: Held, limit: Threshold) -> Held {
  var left = keys;
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) { left[v] = select(vec4(ABSENT), keys[v], passing(keys[v], places[v], limit)); }
  return left;
}

/// Writes the first of the pool's `count` elements as a row's results.
fn write_ordered(row: u32, count: u32, index: u32) {
  for (var i = index; i < min(count, params.k); i += WORKGROUP) {
    write(row * params.selected_pitch + i, pool[min(i, POOL_ROOM - 1u)]);
  }
  write_nothing(row, count, index);
}

/// Writes ABSENT behind the `count` elements of a row, and the number of its results.
fn write_nothing(row: u32, count: u32, index: u32) {
  for (var i = count + index; i < params.k; i += WORKGROUP) {
    selected_keys[row * params.selected_pitch + i] = ABSENT;
    selected_ids[row * params.selected_pitch + i] = vec2(0xffffffffu);
  }
  if (index == 0u) { selected_counts[row] = min(count, params.k); }
}

fn write(at: u32, element: vec2<u32>) {
  selected_keys[at] = element.x;
  selected_ids[at] = vec2(element.y, 0u);
}
