// Which held elements are worth putting in order, and the results of a row from the ordered pool.

/// Elements that are worth ordering at most: to find fewer takes longer than to order these.
fn spread_most(k: u32) -> u32 { return min(max(64u, 4u * power_of_two_from(k)), POOL_ROOM); }

fn only_passing(keys: Held, places: Held, limit: Threshold) -> Held {
  var left = keys;
  // unroll
  for (var v = 0u; v < 4u; v++) { left[v] = select(vec4(ABSENT), keys[v], passing(keys[v], places[v], limit)); }
  return left;
}

/// The first elements of the pool, of `count`, as a row's results.
fn write_ordered(row: u32, count: u32, index: u32) {
  for (var i = index; i < min(count, params.k); i += WORKGROUP) {
    write(row * params.selected_pitch + i, pool[min(i, POOL_ROOM - 1u)]);
  }
  write_nothing(row, count, index);
}

/// Nothing behind the `count` elements of a row, and how many results it has.
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
