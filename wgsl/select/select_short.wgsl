// The k smallest elements of each row by (key, position), for rows that a workgroup holds in registers: up to 16 elements per
// invocation.
@group(0) @binding(1) var<storage, read> words: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> selected_keys: array<u32>; // [rows, selected_pitch]
@group(0) @binding(3) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, selected_pitch]
@group(0) @binding(4) var<storage, read_write> selected_counts: array<u32>; // [rows]

override WORKGROUP: u32 = 256u;
override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override POOL_ROOM: u32 = min(16u * WORKGROUP, POOL_ROOM_MAX);

@compute @workgroup_size(WORKGROUP)
fn select_short(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  let begin = row * params.pitch;
  var keys = nothing_held();
  var places = nothing_held();
  let vectors = min((params.length + 4u * WORKGROUP - 1u) / (4u * WORKGROUP), 4u);
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    places[v] = vec4(lanes.index) + (4u * v + vec4(0u, 1u, 2u, 3u)) * WORKGROUP;
    if (v < vectors) {
      // Behind the row's end lies another row, or the end of the buffer.
      let at = vec4(begin) + min(places[v], vec4(params.length - 1u));
      keys[v] = vec4(words[at.x], words[at.y], words[at.z], words[at.w]);
    }
  }
  // A loop of its own: all loads are in flight before the first use.
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    keys[v] = select(vec4(ABSENT), exact_keys(keys[v]), places[v] < vec4(params.length));
  }
  let k = min(params.k, params.length);
  let last_place = params.length - 1u;
  let is_sorted = params.k <= SORTED_MAX;
  let limit = threshold_of(keys, places, vectors, k, select(k, spread_most(k), is_sorted), last_place, lanes);
  if (!is_sorted) {
    // Selected here and sorted by other kernels.
    pool_clear(lanes.index);
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      if (v < vectors) { write_passing(row, keys[v], places[v], limit); }
    }
    write_nothing(row, limit.count, lanes.index);
    return;
  }
  order_held(only_passing(keys, places, limit), places, vectors, limit.count, k, last_place, lanes);
  write_ordered(row, limit.count, lanes.index);
}

/// Writes the elements that pass, in any order.
fn write_passing(row: u32, keys: vec4<u32>, places: vec4<u32>, limit: Threshold) {
  let passes = passing(keys, places, limit);
  var at = row * params.selected_pitch + atomicAdd(&taken, how_many(passes));
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    if (passes[i]) {
      write(at, vec2(keys[i], places[i]));
      at += 1u;
    }
  }
}
