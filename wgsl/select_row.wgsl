// The k smallest elements of each row by (key, position), one workgroup a row. A short row is held in registers. Of a long row a
// sample is held, which gives a threshold; one pass over the row keeps what lies below. Where more or fewer pass than there is
// room for, the row is marked, and `select_k` takes it. The third form starts from lists that `select_filter` made.
@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>; // [rows, pitch]
@group(0) @binding(2) var<storage, read> words: array<u32>; // the same, or the keys of the lists: [rows, capacity]
@group(0) @binding(3) var<storage, read> listed_ids: array<vec2<u32>>; // [rows, capacity]
@group(0) @binding(4) var<storage, read> states: array<vec4<u32>>; // [rows]: key and place of the threshold, entries of the list
@group(0) @binding(5) var<storage, read_write> selected_keys: array<u32>; // [rows, selected_pitch]
@group(0) @binding(6) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, selected_pitch]
@group(0) @binding(7) var<storage, read_write> selected_counts: array<u32>; // [rows]

override WORKGROUP: u32 = 256u;
override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override FROM: u32 = 0u; // 0: rows of up to 16 elements an invocation, 1: longer ones, 2: lists
override ROOM: u32 = min(16u * WORKGROUP, 1536u);

const SORT_MAX = 1024u;

fn keep(keys: vec4<u32>, places: vec4<u32>, passes: vec4<bool>) { pool_keep(keys, places, passes); }

fn word_key(at: u32) -> u32 {
  let word = words[at];
  if (FLOATS == 1u) { return key_of(bitcast<f32>(word)); }
  return word;
}

/// Every WORKGROUP-th element of a row from `place` on, four of them.
fn short_keys(begin: u32, place: u32) -> vec4<u32> {
  let places = vec4(place, place + WORKGROUP, place + 2u * WORKGROUP, place + 3u * WORKGROUP);
  // Behind the row's end there is another row, or nothing.
  let last = params.length - 1u;
  let at = vec4(begin) + min(places, vec4(last));
  let keys = vec4(word_key(at.x), word_key(at.y), word_key(at.z), word_key(at.w));
  return select(vec4(ABSENT), keys, places <= vec4(last));
}

fn short_places(place: u32) -> vec4<u32> {
  return vec4(place, place + WORKGROUP, place + 2u * WORKGROUP, place + 3u * WORKGROUP);
}

fn listed_keys(begin: u32, place: u32, count: u32) -> vec4<u32> {
  let places = short_places(place);
  let at = vec4(begin) + min(places, vec4(count - 1u));
  return select(vec4(ABSENT), vec4(words[at.x], words[at.y], words[at.z], words[at.w]), places < vec4(count));
}

fn listed_places(begin: u32, place: u32, count: u32) -> vec4<u32> {
  let at = vec4(begin) + min(short_places(place), vec4(count - 1u));
  return vec4(listed_ids[at.x].x, listed_ids[at.y].x, listed_ids[at.z].x, listed_ids[at.w].x);
}

@compute @workgroup_size(WORKGROUP)
fn select_row(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  if (FROM == 0u) {
    short(row, lanes);
  } else if (FROM == 1u) {
    long(row, lanes);
  } else {
    listed(row, lanes);
  }
}

fn short(row: u32, lanes: Lanes) {
  let begin = row * params.pitch;
  var keys = nothing_held();
  var places = nothing_held();
  keys.a = short_keys(begin, lanes.index);
  places.a = short_places(lanes.index);
  var vectors = 1u;
  if (params.length > 4u * WORKGROUP) {
    vectors = 4u;
    keys.b = short_keys(begin, lanes.index + 4u * WORKGROUP);
    keys.c = short_keys(begin, lanes.index + 8u * WORKGROUP);
    keys.d = short_keys(begin, lanes.index + 12u * WORKGROUP);
    places.b = short_places(lanes.index + 4u * WORKGROUP);
    places.c = short_places(lanes.index + 8u * WORKGROUP);
    places.d = short_places(lanes.index + 12u * WORKGROUP);
  }
  let k = min(params.k, params.length);
  if (params.k > SORT_MAX) {
    // Selected here, and sorted by other kernels.
    let limit = threshold_of(keys, places, vectors, k, k, params.length - 1u, lanes);
    pool_clear(lanes.index);
    write_held(row, keys.a, places.a, limit);
    if (vectors > 1u) {
      write_held(row, keys.b, places.b, limit);
      write_held(row, keys.c, places.c, limit);
      write_held(row, keys.d, places.d, limit);
    }
    for (var i = limit.count + lanes.index; i < params.k; i += WORKGROUP) {
      write_nothing(row * params.selected_pitch + i);
    }
    if (lanes.index == 0u) { selected_counts[row] = limit.count; }
    return;
  }
  let limit = threshold_of(keys, places, vectors, k, wanted_most(k), params.length - 1u, lanes);
  pool_clear(lanes.index);
  pool_keep_held(keys, places, vectors, limit);
  workgroupBarrier();
  pool_write(row, limit.count, params.k, lanes.index);
}

fn write_held(row: u32, keys: vec4<u32>, places: vec4<u32>, limit: Threshold) {
  let passes = passing(keys, places, limit);
  var at = row * params.selected_pitch + atomicAdd(&taken, how_many(passes));
  if (passes.x) { write(at, vec2(keys.x, places.x)); at += 1u; }
  if (passes.y) { write(at, vec2(keys.y, places.y)); at += 1u; }
  if (passes.z) { write(at, vec2(keys.z, places.z)); at += 1u; }
  if (passes.w) { write(at, vec2(keys.w, places.w)); }
}

fn long(row: u32, lanes: Lanes) {
  let begin = row * params.pitch;
  let end = begin + params.length;
  let held = sample(begin, (begin + 3u) >> 2u, end >> 2u, lanes.index);
  let limit =
    threshold_of(held.keys, held.places, params.held, params.fewest, params.most, params.length - 1u, lanes);
  pool_clear(lanes.index);
  stream(begin, end, begin >> 2u, min((end + 3u) >> 2u, arrayLength(&values)), limit, lanes.index);
  offer_tail(begin, end, limit, lanes.index);
  finish(row, limit, lanes);
}

/// The results of a row from what passed the threshold, or the mark of a row from which too much or too little did.
fn finish(row: u32, limit: Threshold, lanes: Lanes) {
  let count = workgroupUniformLoad(&taken);
  let is_all = limit.key == LAST && limit.place == EVERY_PLACE;
  if (count > ROOM || (count < params.k && !is_all)) {
    if (lanes.index == 0u) { selected_counts[row] = FAILED; }
    return;
  }
  let left = pool_cut(count, params.k, params.length - 1u, lanes);
  pool_write(row, left, params.k, lanes.index);
}

fn listed(row: u32, lanes: Lanes) {
  let begin = row * params.capacity;
  let state = states[row];
  let count = state.z;
  if (!holds_wanted(state.x, state.y, count)) {
    if (lanes.index == 0u) { selected_counts[row] = FAILED; }
    return;
  }
  var keys = nothing_held();
  var places = nothing_held();
  var vectors = 1u;
  var fewest = params.k;
  var most = wanted_most(params.k);
  let is_held = count <= 16u * WORKGROUP;
  if (is_held && count > 0u) {
    keys.a = listed_keys(begin, lanes.index, count);
    places.a = listed_places(begin, lanes.index, count);
    if (count > 4u * WORKGROUP) {
      vectors = 4u;
      keys.b = listed_keys(begin, lanes.index + 4u * WORKGROUP, count);
      keys.c = listed_keys(begin, lanes.index + 8u * WORKGROUP, count);
      keys.d = listed_keys(begin, lanes.index + 12u * WORKGROUP, count);
      places.b = listed_places(begin, lanes.index + 4u * WORKGROUP, count);
      places.c = listed_places(begin, lanes.index + 8u * WORKGROUP, count);
      places.d = listed_places(begin, lanes.index + 12u * WORKGROUP, count);
    }
  }
  if (!is_held) {
    // Every so many entries of the list, which is in no order.
    vectors = 4u;
    let step = f32(count) / f32(16u * WORKGROUP);
    keys.a = spread_keys(begin, lanes.index, step);
    places.a = spread_places(begin, lanes.index, step);
    keys.b = spread_keys(begin, lanes.index + 4u * WORKGROUP, step);
    places.b = spread_places(begin, lanes.index + 4u * WORKGROUP, step);
    keys.c = spread_keys(begin, lanes.index + 8u * WORKGROUP, step);
    places.c = spread_places(begin, lanes.index + 8u * WORKGROUP, step);
    keys.d = spread_keys(begin, lanes.index + 12u * WORKGROUP, step);
    places.d = spread_places(begin, lanes.index + 12u * WORKGROUP, step);
    let expected = f32(params.k) / step;
    fewest = u32(ceil(expected + 5.0 * sqrt(expected) + 8.0));
    most = fewest + fewest / 16u + 2u;
  }
  let limit = threshold_of(keys, places, vectors, fewest, most, params.length - 1u, lanes);
  pool_clear(lanes.index);
  if (is_held) {
    pool_keep_held(keys, places, vectors, limit);
    workgroupBarrier();
    pool_write(row, limit.count, params.k, lanes.index);
    return;
  }
  for (var i = lanes.index; i < count; i += WORKGROUP) {
    let key = words[begin + i];
    if (key <= limit.key) {
      let place = listed_ids[begin + i].x;
      if (key < limit.key || place <= limit.place) { pool_put(atomicAdd(&taken, 1u), key, place); }
    }
  }
  finish(row, limit, lanes);
}

/// The entries of a list at every `step`-th place, four of them from number `i` on.
fn spread(begin: u32, i: u32, step: f32) -> vec4<u32> { return vec4(begin) + vec4<u32>(vec4<f32>(short_places(i)) * step); }

fn spread_keys(begin: u32, i: u32, step: f32) -> vec4<u32> {
  let at = spread(begin, i, step);
  return vec4(words[at.x], words[at.y], words[at.z], words[at.w]);
}

fn spread_places(begin: u32, i: u32, step: f32) -> vec4<u32> {
  let at = spread(begin, i, step);
  return vec4(listed_ids[at.x].x, listed_ids[at.y].x, listed_ids[at.z].x, listed_ids[at.w].x);
}
