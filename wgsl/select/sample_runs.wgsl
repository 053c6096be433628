// Sorted runs of a sample of each row, one workgroup per run: the first step of sorting by splitters. The sample takes one
// element at a random place of each stratum of the row, so it has its share of any range of elements, ties included. A run
// keeps those that pass the row's threshold, if there is one. The kernel also empties the row's buckets.
@group(0) @binding(1) var<storage, read> words: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> states: array<u32>; // see lib/select/splitters.wgsl
@group(0) @binding(3) var<storage, read_write> sample_keys: array<u32>; // [rows, parts, SORTED_MAX]
@group(0) @binding(4) var<storage, read_write> sample_ids: array<vec2<u32>>; // [rows, parts, SORTED_MAX]

override FLOATS: u32 = 0u; // 1: values are floats, 0: keys

/// The place of a stratum's element. A part takes one of every `parts` neighbouring strata, a different one each time, so that a
/// pattern in the row cannot put all small elements into one part.
fn sampled_place(slot: u32, part: u32) -> u32 {
  let turn = u32(scattered(slot) * f32(params.parts));
  let stratum = slot * params.parts + (part + turn) % params.parts;
  let strata = params.parts * params.turns * WORKGROUP;
  let width = params.length / strata;
  let wider = params.length % strata;
  let own_width = width + select(0u, 1u, stratum < wider);
  let offset = min(u32(scattered(~stratum) * f32(own_width)), own_width - 1u);
  return stratum * width + min(stratum, wider) + offset;
}

@compute @workgroup_size(WORKGROUP)
fn sample_runs(lanes: Lanes, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let part = workgroup.x;
  let row = workgroup.y;
  let begin = row * params.pitch;
  var limit = Threshold(LAST, EVERY_PLACE, 0u);
  if (params.is_filtered == 1u) { limit = Threshold(states[row * 4u], states[row * 4u + 1u], 0u); }
  pool_clear(lanes.index);
  for (var turn = 0u; turn < params.turns; turn += 8u) {
    var keys = array<vec4<u32>, 2>();
    var places = array<vec4<u32>, 2>();
    // unroll on hardware
    for (var v = 0u; v < 2u; v++) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (turn + 4u * v < params.turns) {
          places[v][i] = sampled_place((turn + 4u * v + i) * WORKGROUP + lanes.index, part);
          keys[v][i] = words[begin + places[v][i]];
        }
      }
    }
    // A loop of its own: all loads are in flight before the first use.
    // unroll on hardware
    for (var v = 0u; v < 2u; v++) {
      if (turn + 4u * v < params.turns) {
        let own = exact_keys(keys[v]);
        let passes = passing(own, places[v], limit);
        if (any(passes)) { pool_keep(own, places[v], passes); }
      }
    }
  }
  // If there is no room for all, the rest is as good a sample.
  let count = min(workgroupUniformLoad(&taken), POOL_ROOM);
  var keys = nothing_held();
  var places = nothing_held();
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    let at = lanes.index + i * WORKGROUP;
    let element = pool[at];
    keys[0][i] = select(ABSENT, element.x, at < count);
    places[0][i] = element.y;
  }
  workgroupBarrier();
  // A run that is the whole sample is not read behind the wanted rank.
  let is_whole = params.parts == 1u;
  let wanted = select(count, min(count, params.wanted), is_whole);
  order_held(keys, places, 1u, count, wanted, params.length - 1u, lanes);
  let first = (row * params.parts + part) * SORTED_MAX;
  for (var i = lanes.index; i < select(SORTED_MAX, wanted, is_whole); i += WORKGROUP) {
    let element = pool[i];
    sample_keys[first + i] = select(ABSENT, element.x, i < count);
    sample_ids[first + i] = select(vec2(0xffffffffu), vec2(element.y, 0u), i < count);
  }
  for (var bucket = part * WORKGROUP + lanes.index; bucket < params.buckets; bucket += params.parts * WORKGROUP) {
    states[bucket_at(row, bucket)] = 0u;
  }
  if (lanes.index == 0u) {
    states[part_at(row, part)] = count;
    if (part == 0u) {
      if (params.is_filtered == 0u) {
        states[row * 4u] = LAST;
        states[row * 4u + 1u] = EVERY_PLACE;
      }
      states[row * 4u + 3u] = 0u;
    }
  }
}
