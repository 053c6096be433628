// Counts elements that are held in buckets of equal ranges, of numbers or of keys.
const BUCKETS = 512u;
// After the counting a cell has the place where its bucket starts; whoever spreads elements moves it to where it ends.
var<workgroup> cells: array<atomic<u32>, BUCKETS>;
var<workgroup> cell_sums: array<u32, 32>;
var<workgroup> fullest: atomic<u32>;
var<workgroup> boundary: atomic<u32>;
var<workgroup> counted: u32;

/// Where the cell of a bucket lies: those of one of the 32 that add them up are in different banks of memory.
fn cell_of(bucket: u32) -> u32 { return ((bucket & (BUCKETS / 32u - 1u)) << 5u) | (bucket / (BUCKETS / 32u)); }

fn clear_cells(index: u32) {
  workgroupBarrier();
  for (var i = index; i < BUCKETS; i += WORKGROUP) { atomicStore(&cells[i], 0u); }
  if (index == 0u) {
    atomicStore(&fullest, 0u);
    atomicStore(&boundary, BUCKETS);
  }
  workgroupBarrier();
}

/// Whether a range of keys is one of numbers up to 1e37, whose differences are numbers, of a width that can be divided by.
fn are_numbers(range: vec2<u32>) -> bool {
  return range.x >= 0x030f423du && range.y <= 0xfcf0bdc2u && value_of(range.y) - value_of(range.x) > 1e-30;
}

/// The bucket of each element, which rises with its key, by equal ranges of numbers or of keys within `range`. Elements of the key
/// `top` have the upper half of the buckets, by equal ranges of places within `spots`; without any `top` is ABSENT.
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
  // unroll
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
  // unroll
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) { atomicAdd(&cells[cell_of(buckets[v][i])], 1u); }
      }
    }
  }
}

/// Counts in cells become places where buckets start, by 32 invocations. `fullest` is then the most elements of a bucket that starts
/// in front of `wanted`, `boundary` the first bucket that starts between `range.x` and `range.y`, and `counted` how many there are.
fn start_cells(wanted: u32, range: vec2<u32>, index: u32) {
  workgroupBarrier();
  if (index < 32u) {
    var sum = 0u;
    for (var i = index; i < BUCKETS; i += 32u) { sum += atomicLoad(&cells[i]); }
    cell_sums[index] = sum;
  }
  workgroupBarrier();
  if (index < 32u) {
    var start = 0u;
    // unroll
    for (var i = 0u; i < 32u; i++) { start += select(0u, cell_sums[i], i < index); }
    var most = 0u;
    for (var i = 0u; i < BUCKETS / 32u; i += 1u) {
      let count = atomicLoad(&cells[i * 32u + index]);
      if (start < wanted) { most = max(most, count); }
      if (start >= range.x && start <= range.y) { atomicMin(&boundary, index * (BUCKETS / 32u) + i); }
      atomicStore(&cells[i * 32u + index], start);
      start += count;
    }
    atomicMax(&fullest, most);
    if (index == 31u) { counted = start; }
  }
}

/// As `threshold_of`, and quicker where elements spread evenly: the largest key in front of the start of a bucket.
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
      // unroll
      for (var v = 0u; v < 4u; v++) {
        if (v < vectors) { below[v] = select(vec4(ABSENT), keys[v], buckets[v] < vec4(limit)); }
      }
      return Threshold(range_of(below, vectors, lanes).y, EVERY_PLACE, most);
    }
  }
  return threshold_of(keys, places, vectors, fewest, most, last_place, lanes);
}
