// Counts held elements in buckets that divide a range of numbers or keys evenly.

// Counts, one per bucket. `start_cells` turns them into the places where buckets start; spreading elements moves each to
// the place where its bucket ends.
var<workgroup> cells: array<atomic<u32>, BUCKETS>;
var<workgroup> cell_sums: array<u32, ADDERS>;
var<workgroup> fullest: atomic<u32>;
var<workgroup> boundary: atomic<u32>;
var<workgroup> counted: u32;

/// The place of a bucket's cell. The ADDERS invocations that add cells up each find theirs in different banks of memory.
fn cell_of(bucket: u32) -> u32 {
  return ((bucket & (BUCKETS / ADDERS - 1u)) << firstTrailingBit(ADDERS)) | (bucket / (BUCKETS / ADDERS));
}

fn clear_cells(index: u32) {
  workgroupBarrier();
  for (var i = index; i < BUCKETS; i += WORKGROUP) { atomicStore(&cells[i], 0u); }
  if (index == 0u) {
    atomicStore(&fullest, 0u);
    atomicStore(&boundary, BUCKETS);
  }
  workgroupBarrier();
}

/// Whether a range of keys spans finite numbers up to 1e37, whose differences are finite, and is wide enough to divide by.
fn are_numbers(range: vec2<u32>) -> bool {
  return range.x >= 0x030f423du && range.y <= 0xfcf0bdc2u && value_of(range.y) - value_of(range.x) > 1e-30;
}

/// The bucket of each element. Buckets rise with the key and divide `range` evenly, as numbers or as keys. Elements with the
/// key `top` get the upper half of the buckets, which divide the places in `spots` evenly; ABSENT stands for no such key.
fn buckets_of(
  keys: Held,
  places: Held,
  vectors: u32,
  range: vec2<u32>,
  by_numbers: bool,
  top: u32,
  spots: vec2<u32>,
) -> Held {
  let low = value_of(range.x);
  let count = select(BUCKETS / 2u, BUCKETS, top == ABSENT);
  var scale = (f32(count) - 0.5) / max(f32(range.y - range.x), 1.0);
  if (by_numbers) { scale = (f32(count) - 0.5) / (value_of(range.y) - low); }
  let place_scale = (f32(BUCKETS / 2u) - 0.5) / max(f32(spots.y - spots.x), 1.0);
  var buckets = nothing_held();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      var above = vec4<f32>(keys[v] - vec4(range.x));
      if (by_numbers) {
        let bits = select(~keys[v], keys[v] & vec4(0x7fffffffu), keys[v] >= vec4(0x80000000u));
        above = bitcast<vec4<f32>>(bits) - vec4(low);
      }
      buckets[v] = min(vec4<u32>(above * scale), vec4(count - 1u));
      if (top != ABSENT) {
        let by_place = min(vec4<u32>(vec4<f32>(places[v] - vec4(spots.x)) * place_scale) + count, vec4(BUCKETS - 1u));
        buckets[v] = select(buckets[v], by_place, keys[v] == vec4(top));
      }
    }
  }
  return buckets;
}

fn count_in_cells(keys: Held, buckets: Held, vectors: u32) {
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) { atomicAdd(&cells[cell_of(buckets[v][i])], 1u); }
      }
    }
  }
}

/// Turns counts into the places where buckets start; ADDERS invocations do it. Then `fullest` is the largest count of a bucket that
/// starts before `wanted`, `boundary` the first bucket that starts between `range.x` and `range.y`, and `counted` the total.
fn start_cells(wanted: u32, range: vec2<u32>, index: u32) {
  workgroupBarrier();
  if (index < ADDERS) {
    var sum = 0u;
    for (var i = index; i < BUCKETS; i += ADDERS) { sum += atomicLoad(&cells[i]); }
    cell_sums[index] = sum;
  }
  workgroupBarrier();
  if (index < ADDERS) {
    var start = 0u;
    // unroll on hardware
    for (var i = 0u; i < ADDERS; i++) { start += select(0u, cell_sums[i], i < index); }
    var most = 0u;
    for (var i = 0u; i < BUCKETS / ADDERS; i += 1u) {
      let count = atomicLoad(&cells[i * ADDERS + index]);
      if (start < wanted) { most = max(most, count); }
      if (start >= range.x && start <= range.y) { atomicMin(&boundary, index * (BUCKETS / ADDERS) + i); }
      atomicStore(&cells[i * ADDERS + index], start);
      start += count;
    }
    atomicMax(&fullest, most);
    if (index == ADDERS - 1u) { counted = start; }
  }
}

/// Like `threshold_of`, but faster where elements spread evenly: the largest key before the start of a bucket.
fn threshold_by_buckets(
  keys: Held,
  places: Held,
  vectors: u32,
  fewest: u32,
  most: u32,
  last_place: u32,
  lanes: Lanes,
) -> Threshold {
  let range = range_of(keys, vectors, lanes);
  if (are_numbers(range)) {
    clear_cells(lanes.index);
    let buckets = buckets_of(keys, places, vectors, range, true, ABSENT, vec2(0u));
    count_in_cells(keys, buckets, vectors);
    start_cells(0u, vec2(fewest, most), lanes.index);
    let limit = workgroupUniformLoad(&boundary);
    if (workgroupUniformLoad(&counted) <= most) { return Threshold(LAST, EVERY_PLACE, most); }
    if (limit < BUCKETS) {
      var below = nothing_held();
      // unroll on hardware
      for (var v = 0u; v < 4u; v++) {
        if (v < vectors) { below[v] = select(vec4(ABSENT), keys[v], buckets[v] < vec4(limit)); }
      }
      return Threshold(range_of(below, vectors, lanes).y, EVERY_PLACE, most);
    }
  }
  return threshold_of(keys, places, vectors, fewest, most, last_place, lanes);
}
