// Lowers a query's threshold to the k-th smallest upper bound on its list, and drops rows from the list that certainly lie
// above it. One workgroup per query. A list that overflowed marks its query, which is then searched another way.
@group(0) @binding(1) var<storage, read_write> thresholds: array<u32>; // [lists]: keys
@group(0) @binding(2) var<storage, read_write> counts: array<u32>; // [lists]
@group(0) @binding(3) var<storage, read_write> candidates: array<u32>; // [3, lists, capacity], planes `params.plane` apart: slots, lower, upper keys
@group(0) @binding(4) var<storage, read_write> overflowed: array<u32>; // [lists]: 1 if rows were dropped
@group(0) @binding(5) var<storage, read> exact: array<u32>; // [queries, capacity]: keys, if EXACT = 1

override RADIX: u32 = 0u; // 1: for a k above FEW
override EXACT: u32 = 0u; // 1: intervals become the distances that will be reported

const HELD = 8u; // entries that an invocation loads together

var<workgroup> list_length: u32;
var<workgroup> threshold: u32;
var<workgroup> kept: atomic<u32>;

fn upper_of(query: u32, entry: u32) -> u32 {
  if (EXACT == 1u) { return exact[query * params.capacity + entry]; }
  return candidates[2u * params.plane + query * params.capacity + entry];
}

@compute @workgroup_size(WORKGROUP)
fn tighten(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) {
    let count = counts[query];
    if (params.is_first == 1u) { overflowed[query] = 0u; }
    if (count > params.capacity) { overflowed[query] = 1u; }
    list_length = min(count, params.capacity);
    threshold = LARGEST_KEY;
    if (params.is_first == 0u) { threshold = thresholds[query]; }
    atomicStore(&kept, 0u);
  }
  let length = workgroupUniformLoad(&list_length);
  var limit = workgroupUniformLoad(&threshold);
  let list = query * params.capacity;
  if (length >= params.k) {
    var uppers: array<u32, HELD>;
    // unroll on hardware
    for (var h = 0u; h < HELD; h++) {
      if (index + h * WORKGROUP < length) { uppers[h] = upper_of(query, index + h * WORKGROUP); }
    }
    let rank = params.k - 1u;
    if (RADIX == 0u || length <= WORKGROUP) {
      var least = ABSENT;
      // unroll on hardware
      for (var h = 0u; h < HELD; h++) {
        if (index + h * WORKGROUP < length) { least = min(least, uppers[h]); }
      }
      for (var i = index + HELD * WORKGROUP; i < length; i += WORKGROUP) { least = min(least, upper_of(query, i)); }
      limit = min(limit, key_of_rank(index, least, min(length, WORKGROUP), rank));
    } else {
      // The highest 22 bits of the k-th smallest, by two digits. The others are set: a threshold that is larger by 2^-13 of
      // itself is still valid.
      var found = vec2(0u, rank);
      for (var turn = 0u; turn < 2u; turn++) {
        let shift = 21u - 11u * turn;
        clear_digits(index);
        // unroll on hardware
        for (var h = 0u; h < HELD; h++) {
          if (index + h * WORKGROUP < length) { count_digit(uppers[h], found.x, shift); }
        }
        for (var i = index + HELD * WORKGROUP; i < length; i += WORKGROUP) { count_digit(upper_of(query, i), found.x, shift); }
        found = pick_digit(index, found, shift);
      }
      limit = min(limit, found.x | ROUNDED_BITS);
    }
  }
  // In place: a piece of the list is loaded into registers before any of it is overwritten.
  for (var start = 0u; start < length; start += HELD * WORKGROUP) {
    var slots = array<u32, HELD>();
    var lowers = array<u32, HELD>();
    var uppers = array<u32, HELD>();
    // unroll on hardware
    for (var h = 0u; h < HELD; h++) {
      let i = start + h * WORKGROUP + index;
      lowers[h] = ABSENT;
      if (i < length) {
        slots[h] = candidates[list + i];
        uppers[h] = upper_of(query, i);
        lowers[h] = uppers[h];
        if (EXACT == 0u) { lowers[h] = candidates[params.plane + list + i]; }
      }
    }
    storageBarrier();
    workgroupBarrier();
    // unroll on hardware
    for (var h = 0u; h < HELD; h++) {
      if (lowers[h] <= limit) {
        let place = list + atomicAdd(&kept, 1u);
        candidates[place] = slots[h];
        candidates[params.plane + place] = lowers[h];
        candidates[2u * params.plane + place] = uppers[h];
      }
    }
    storageBarrier();
    workgroupBarrier();
  }
  if (index == 0u) {
    thresholds[query] = limit;
    counts[query] = atomicLoad(&kept);
  }
}
