// The k smallest elements of each row by (key, position), one workgroup per row, in one pass. A sample of the row gives a
// threshold, and the elements that pass it are kept. If too many or too few pass, the row is marked, and `select_k` takes
// it. The other variant starts from lists that `select_filter` made of the rows.
@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>; // [rows, pitch]
@group(0) @binding(2) var<storage, read> words: array<u32>; // the same, or the keys of the lists: [rows, capacity]
@group(0) @binding(3) var<storage, read> listed_ids: array<vec2<u32>>; // [rows, capacity]
@group(0) @binding(4) var<storage, read> states: array<vec4<u32>>; // [rows]: see lib/select/states.wgsl
@group(0) @binding(5) var<storage, read_write> selected_keys: array<u32>; // [rows, selected_pitch]
@group(0) @binding(6) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, selected_pitch]
@group(0) @binding(7) var<storage, read_write> selected_counts: array<u32>; // [rows]

override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override HELD: u32 = 1u; // vectors of the sample that an invocation holds
override LISTS: u32 = 0u; // 1: rows are lists

fn keep(keys: vec4<u32>, places: vec4<u32>, passes: vec4<bool>) { pool_keep(keys, places, passes); }

/// Four places, WORKGROUP apart, from `place` on: neighbouring invocations have neighbouring places.
fn places_from(place: u32) -> vec4<u32> { return vec4(place) + vec4(0u, 1u, 2u, 3u) * WORKGROUP; }

@compute @workgroup_size(WORKGROUP)
fn select_row(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  if (LISTS == 1u) { listed(row, lanes); } else { long(row, lanes); }
}

fn long(row: u32, lanes: Lanes) {
  let begin = row * params.pitch;
  let end = begin + params.length;
  let held = sample(begin, (begin + 3u) >> 2u, end >> 2u, lanes.index);
  let limit =
    threshold_by_buckets(held.keys, held.places, HELD, params.fewest, params.most, params.length - 1u, lanes);
  pool_clear(lanes.index);
  stream(begin, end, begin >> 2u, min((end + 3u) >> 2u, arrayLength(&values)), limit, lanes.index);
  offer_tail(begin, end, limit, lanes.index);
  finish(row, limit, lanes);
}

/// Writes a row's results from the elements that passed the threshold, or marks the row if too many or too few passed.
fn finish(row: u32, limit: Threshold, lanes: Lanes) {
  let count = workgroupUniformLoad(&taken);
  let is_all = limit.key == LAST && limit.place == EVERY_PLACE;
  if (count > POOL_ROOM || (count < params.k && !is_all)) {
    if (lanes.index == 0u) { selected_counts[row] = FAILED; }
    return;
  }
  var keys = nothing_held();
  var places = nothing_held();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      if ((4u * v + i) * WORKGROUP < POOL_ROOM) {
        let at = lanes.index + (4u * v + i) * WORKGROUP;
        if (at < count) {
          keys[v][i] = pool[at].x;
          places[v][i] = pool[at].y;
        }
      }
    }
  }
  let vectors = select(2u, 1u, count <= 4u * WORKGROUP);
  order_held(keys, places, vectors, count, params.k, params.length - 1u, lanes);
  write_ordered(row, count, lanes.index);
}

/// Whether a list of `count` entries had room and holds the row's k smallest, or all of the row.
fn holds_wanted(key: u32, place: u32, count: u32) -> bool {
  return count <= params.capacity && (count >= params.k || (key == LAST && place == EVERY_PLACE));
}

fn listed(row: u32, lanes: Lanes) {
  let begin = row * params.capacity;
  let state = states[row];
  let count = state.z;
  if (!holds_wanted(state.x, state.y, count)) {
    if (lanes.index == 0u) { selected_counts[row] = FAILED; }
    return;
  }
  // A list that is too long to be held is sampled at equal distances, because it is in no order.
  let is_held = count <= 16u * WORKGROUP;
  let vectors = select(4u, (count + 4u * WORKGROUP - 1u) / (4u * WORKGROUP), is_held);
  let step = select(f32(count) / f32(16u * WORKGROUP), 1.0, is_held);
  var keys = nothing_held();
  var places = nothing_held();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      let entries = vec4<u32>(vec4<f32>(places_from(lanes.index + 4u * v * WORKGROUP)) * step);
      let at = vec4(begin) + min(entries, vec4(count - 1u));
      keys[v] = vec4(words[at.x], words[at.y], words[at.z], words[at.w]);
      places[v] = vec4(listed_ids[at.x].x, listed_ids[at.y].x, listed_ids[at.z].x, listed_ids[at.w].x);
    }
  }
  if (is_held) {
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      let entries = places_from(lanes.index + 4u * v * WORKGROUP);
      keys[v] = select(vec4(ABSENT), keys[v], entries < vec4(count));
    }
  }
  var fewest = params.k;
  var most = spread_most(params.k);
  if (!is_held) {
    let expected = f32(params.k) / step;
    fewest = u32(ceil(expected + 5.0 * sqrt(expected) + 8.0));
    most = fewest + fewest / 16u + 2u;
  }
  let last_place = params.length - 1u;
  let limit = threshold_of(keys, places, vectors, fewest, most, last_place, lanes);
  if (is_held) {
    order_held(only_passing(keys, places, limit), places, vectors, limit.count, params.k, last_place, lanes);
    write_ordered(row, limit.count, lanes.index);
    return;
  }
  pool_clear(lanes.index);
  for (var i = lanes.index; i < count; i += WORKGROUP) {
    let key = words[begin + i];
    if (key <= limit.key) {
      let place = listed_ids[begin + i].x;
      if (key < limit.key || place <= limit.place) { pool_keep(vec4(key), vec4(place), vec4(true, false, false, false)); }
    }
  }
  finish(row, limit, lanes);
}
