// Lists the elements that pass each row's threshold, in any order, several workgroups per row, each with a piece of it.
// Where few pass, a workgroup collects them and appends them at once; where many do, it appends batch by batch. Elements
// without room in the list are only counted.
@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>; // [rows, pitch]
@group(0) @binding(2) var<storage, read> words: array<u32>; // the same
@group(0) @binding(3) var<storage, read_write> states: array<atomic<u32>>; // [rows, 4]: see lib/select/states.wgsl
@group(0) @binding(4) var<storage, read_write> listed_keys: array<u32>; // [rows, capacity]
@group(0) @binding(5) var<storage, read_write> listed_ids: array<vec2<u32>>; // [rows, capacity]

override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override MANY: u32 = 0u; // 1: many elements pass

var<workgroup> collected: array<vec2<u32>, COLLECTED_MAX>;
var<workgroup> taken: atomic<u32>;
var<workgroup> threshold: vec2<u32>;
var<workgroup> list_start: u32;
var<workgroup> current_row: u32;

fn list(at: u32, key: u32, place: u32) {
  if (at < params.capacity) {
    listed_keys[current_row * params.capacity + at] = key;
    listed_ids[current_row * params.capacity + at] = vec2(place, 0u);
  }
}

fn collect(at: u32, key: u32, place: u32) {
  if (at < COLLECTED_MAX) {
    collected[at] = vec2(key, place);
  } else {
    list(atomicAdd(&states[current_row * 4u + 2u], 1u), key, place);
  }
}

fn keep(keys: vec4<u32>, places: vec4<u32>, passes: vec4<bool>) {
  var at = atomicAdd(&taken, how_many(passes));
  if (passes.x) { collect(at, keys.x, places.x); at += 1u; }
  if (passes.y) { collect(at, keys.y, places.y); at += 1u; }
  if (passes.z) { collect(at, keys.z, places.z); at += 1u; }
  if (passes.w) { collect(at, keys.w, places.w); }
}

fn list_passing(at: u32, words: vec4<u32>, vector: u32, begin: u32, passes: vec4<bool>) -> u32 {
  var next = at;
  if (any(passes)) {
    let keys = exact_keys(words);
    let places = vec4(vector * 4u - begin) + vec4(0u, 1u, 2u, 3u);
    if (passes.x) { list(next, keys.x, places.x); next += 1u; }
    if (passes.y) { list(next, keys.y, places.y); next += 1u; }
    if (passes.z) { list(next, keys.z, places.z); next += 1u; }
    if (passes.w) { list(next, keys.w, places.w); next += 1u; }
  }
  return next;
}

@compute @workgroup_size(WORKGROUP)
fn select_filter(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = workgroup.y;
  let begin = row * params.pitch;
  let end = begin + params.length;
  if (index == 0u) {
    threshold = vec2(atomicLoad(&states[row * 4u]), atomicLoad(&states[row * 4u + 1u]));
    current_row = row;
    atomicStore(&taken, 0u);
  }
  let both = workgroupUniformLoad(&threshold);
  let limit = Threshold(both.x, both.y, 0u);
  let from_vector = (begin >> 2u) + workgroup.x * params.piece;
  let row_vectors = min((end + 3u) >> 2u, arrayLength(&values));
  let to_vector = min(from_vector + params.piece, row_vectors);
  let is_last = workgroup.x + 1u == workgroups.x;
  if (MANY == 0u) {
    stream(begin, end, from_vector, to_vector, limit, index);
    if (is_last) { offer_tail(begin, end, limit, index); }
    let count = min(workgroupUniformLoad(&taken), COLLECTED_MAX);
    if (index == 0u && count > 0u) { list_start = atomicAdd(&states[row * 4u + 2u], count); }
    let start = workgroupUniformLoad(&list_start);
    for (var i = index; i < count; i += WORKGROUP) { list(start + i, collected[i].x, collected[i].y); }
    return;
  }
  for (var first = from_vector; first < to_vector; first += 4u * WORKGROUP) {
    let i = first + index;
    let last = to_vector - 1u;
    let a = values[min(i, last)];
    let b = values[min(i + WORKGROUP, last)];
    let c = values[min(i + 2u * WORKGROUP, last)];
    let d = values[min(i + 3u * WORKGROUP, last)];
    let limit_end = min(end, to_vector * 4u);
    let pass_a = passing_of(a, i, begin, limit_end, limit);
    let pass_b = passing_of(b, i + WORKGROUP, begin, limit_end, limit);
    let pass_c = passing_of(c, i + 2u * WORKGROUP, begin, limit_end, limit);
    let pass_d = passing_of(d, i + 3u * WORKGROUP, begin, limit_end, limit);
    let count = how_many(pass_a) + how_many(pass_b) + how_many(pass_c) + how_many(pass_d);
    var at = 0u;
    if (count > 0u) { at = atomicAdd(&taken, count); }
    let all = workgroupUniformLoad(&taken);
    if (index == 0u && all > 0u) {
      list_start = atomicAdd(&states[row * 4u + 2u], all);
      atomicStore(&taken, 0u);
    }
    at += workgroupUniformLoad(&list_start);
    at = list_passing(at, a, i, begin, pass_a);
    at = list_passing(at, b, i + WORKGROUP, begin, pass_b);
    at = list_passing(at, c, i + 2u * WORKGROUP, begin, pass_c);
    at = list_passing(at, d, i + 3u * WORKGROUP, begin, pass_d);
  }
  if (is_last) {
    // At most three elements: the list takes them directly.
    atomicStore(&taken, COLLECTED_MAX);
    workgroupBarrier();
    offer_tail(begin, end, limit, index);
  }
}
