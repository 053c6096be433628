// Scatters the elements of each row that are small enough into buckets between splitters, several workgroups per row, each
// with a piece of it. The splitters, and the threshold behind the last bucket, are elements of the row's sorted sample at
// equal distances in rank. Elements and splitters are ordered by key and place, so ties spread over buckets like other
// elements. A workgroup takes 4,096 elements at a time, counts those of each bucket, reserves room for them and writes them
// there; where few pass, it first collects those of several batches. Elements without room in their bucket are only counted.
@group(0) @binding(1) var<storage, read> words: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> states: array<atomic<u32>>; // see lib/select/splitters.wgsl
@group(0) @binding(3) var<storage, read> sample_keys: array<u32>; // [rows, parts, SORTED_MAX], sorted
@group(0) @binding(4) var<storage, read> sample_ids: array<vec2<u32>>; // [rows, parts, SORTED_MAX], sorted
@group(0) @binding(5) var<storage, read_write> entries: array<vec2<u32>>; // [rows, buckets, BUCKET_ROOM]: keys and places

override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override MANY: u32 = 0u; // 1: more splitters than fit into workgroup memory

alias Held = array<vec4<u32>, 4>;

var<workgroup> splitter_keys: array<u32, SPLITTERS>;
var<workgroup> splitter_places: array<u32, SPLITTERS>;
var<workgroup> cells: array<atomic<u32>, SPLITTERS>; // elements per bucket, then their first place in it
var<workgroup> collected: array<vec2<u32>, COLLECTED_MAX>;
var<workgroup> taken: atomic<u32>;
var<workgroup> sampled: atomic<u32>;
var<workgroup> threshold: vec2<u32>;
var<workgroup> current_row: u32;

/// The element of a rank of the sorted sample.
fn sample_at(rank: u32) -> vec2<u32> {
  let at = current_row * params.parts * SORTED_MAX + rank;
  return vec2(sample_keys[at], sample_ids[at].x);
}

/// Splitter `number`, the largest element of its bucket, where the buckets share the first `reached` elements of the sample.
fn splitter(number: u32, reached: u32) -> vec2<u32> {
  if (number + 1u >= params.buckets || reached == 0u) { return vec2(ABSENT, 0xffffffffu); }
  let ends = (number + 1u) * (reached / params.buckets) + min(number + 1u, reached % params.buckets);
  return sample_at(ends - 1u);
}

/// Loads threshold and splitters, and returns how many elements of the sample the buckets share. If not all splitters fit, it loads
/// every 2^`params.shift`-th.
fn load_splitters(row: u32, is_first: bool, index: u32) -> u32 {
  if (index == 0u) {
    current_row = row;
    atomicStore(&sampled, 0u);
    atomicStore(&taken, 0u);
  }
  workgroupBarrier();
  for (var part = index; part < params.parts; part += WORKGROUP) {
    let count = atomicLoad(&states[part_at(row, part)]);
    if (count > 0u) { atomicAdd(&sampled, count); }
  }
  let there = workgroupUniformLoad(&sampled);
  let reached = min(there, params.wanted);
  if (index == 0u) {
    // A sample with fewer elements than wanted was small enough as a whole.
    threshold = vec2(atomicLoad(&states[row * 4u]), atomicLoad(&states[row * 4u + 1u]));
    if (there >= params.wanted) {
      threshold = sample_at(params.wanted - 1u);
      if (is_first) {
        atomicStore(&states[row * 4u], threshold.x);
        atomicStore(&states[row * 4u + 1u], threshold.y);
      }
    }
  }
  for (var i = index; i < SPLITTERS; i += WORKGROUP) {
    let own = splitter(((i + 1u) << params.shift) - 1u, reached);
    splitter_keys[i] = own.x;
    splitter_places[i] = own.y;
    atomicStore(&cells[i], 0u);
  }
  workgroupBarrier();
  return reached;
}

/// The buckets of four elements: the number of splitters before each.
fn buckets_of(keys: vec4<u32>, places: vec4<u32>, reached: u32) -> vec4<u32> {
  var found = vec4(0u);
  for (var step = params.first_step; step > 0u; step >>= 1u) {
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      let probe = found[i] + step - 1u;
      let key = splitter_keys[probe];
      var is_before = key < keys[i];
      if (key == keys[i]) { is_before = splitter_places[probe] < places[i]; }
      found[i] += select(0u, step, is_before);
    }
  }
  if (MANY == 1u) {
    found <<= vec4(params.shift);
    for (var step = (1u << params.shift) >> 1u; step > 0u; step >>= 1u) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        let own = splitter(found[i] + step - 1u, reached);
        let is_before = own.x < keys[i] || (own.x == keys[i] && own.y < places[i]);
        found[i] += select(0u, step, is_before);
      }
    }
  }
  return found;
}

fn put(bucket: u32, at: u32, key: u32, place: u32) {
  if (at < BUCKET_ROOM) { entries[(current_row * params.buckets + bucket) * BUCKET_ROOM + at] = vec2(key, place); }
}

/// Puts held elements, except ABSENT ones, into their buckets. `cells` are 0 before and after.
fn scatter(keys: Held, places: Held, vectors: u32, reached: u32, index: u32) {
  // Each element's bucket and rank in it. Not used where there are many buckets, because few elements share one.
  var spots = Held(vec4(0u), vec4(0u), vec4(0u), vec4(0u));
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors && any(keys[v] != vec4(ABSENT))) {
      let buckets = buckets_of(keys[v], places[v], reached);
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) {
          if (MANY == 1u) {
            put(buckets[i], atomicAdd(&states[bucket_at(current_row, buckets[i])], 1u), keys[v][i], places[v][i]);
          } else {
            spots[v][i] = (atomicAdd(&cells[buckets[i]], 1u) << 16u) | buckets[i];
          }
        }
      }
    }
  }
  if (MANY == 1u) { return; }
  workgroupBarrier();
  for (var bucket = index; bucket < params.buckets; bucket += WORKGROUP) {
    let count = atomicLoad(&cells[bucket]);
    if (count > 0u) { atomicStore(&cells[bucket], atomicAdd(&states[bucket_at(current_row, bucket)], count)); }
  }
  workgroupBarrier();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) {
          let bucket = spots[v][i] & 0xffffu;
          put(bucket, atomicLoad(&cells[bucket]) + (spots[v][i] >> 16u), keys[v][i], places[v][i]);
        }
      }
    }
  }
  workgroupBarrier();
  for (var bucket = index; bucket < params.buckets; bucket += WORKGROUP) { atomicStore(&cells[bucket], 0u); }
  workgroupBarrier();
}

/// Puts the first `count` collected elements into their buckets.
fn scatter_collected(count: u32, reached: u32, index: u32) {
  var keys = Held(vec4(ABSENT), vec4(ABSENT), vec4(ABSENT), vec4(ABSENT));
  var places = Held(vec4(0u), vec4(0u), vec4(0u), vec4(0u));
  workgroupBarrier();
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    let at = index + i * WORKGROUP;
    let element = collected[at];
    keys[0][i] = select(ABSENT, element.x, at < count);
    places[0][i] = element.y;
  }
  workgroupBarrier();
  scatter(keys, places, 1u, reached, index);
}

@compute @workgroup_size(WORKGROUP)
fn scatter_buckets(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = workgroup.y;
  let reached = load_splitters(row, workgroup.x == 0u, index);
  let both = workgroupUniformLoad(&threshold);
  let limit = Threshold(both.x, both.y, 0u);
  let begin = row * params.pitch;
  let piece_end = min((workgroup.x + 1u) * params.piece, params.length);
  var waiting = 0u; // collected elements
  for (var first = workgroup.x * params.piece; first < piece_end; first += BATCH) {
    var keys = Held();
    var places = Held();
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      places[v] = vec4(first + index) + (4u * v + vec4(0u, 1u, 2u, 3u)) * WORKGROUP;
      let at = vec4(begin) + min(places[v], vec4(params.length - 1u));
      keys[v] = vec4(words[at.x], words[at.y], words[at.z], words[at.w]);
    }
    // A loop of its own: all loads are in flight before the first use.
    var count = 0u;
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      let own = exact_keys(keys[v]);
      let passes = passing(own, places[v], limit) & (places[v] < vec4(piece_end));
      keys[v] = select(vec4(ABSENT), own, passes);
      count += how_many(passes);
    }
    var at = 0u;
    if (count > 0u) { at = atomicAdd(&taken, count); }
    let before = waiting;
    waiting = workgroupUniformLoad(&taken);
    if (waiting > COLLECTED_MAX) {
      if (before > 0u) { scatter_collected(before, reached, index); }
      at -= min(at, before);
      waiting -= before;
      if (waiting > COLLECTED_MAX) {
        scatter(keys, places, 4u, reached, index);
        waiting = 0u;
        count = 0u;
      }
      if (index == 0u) { atomicStore(&taken, waiting); }
      workgroupBarrier();
    }
    if (count > 0u) {
      // unroll on hardware
      for (var v = 0u; v < 4u; v++) {
        // unroll on hardware
        for (var i = 0u; i < 4u; i++) {
          if (keys[v][i] != ABSENT) {
            collected[min(at, COLLECTED_MAX - 1u)] = vec2(keys[v][i], places[v][i]);
            at += 1u;
          }
        }
      }
    }
  }
  if (waiting > 0u) { scatter_collected(waiting, reached, index); }
}
