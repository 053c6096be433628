// A query's threshold becomes the k-th smallest upper bound of its list, and rows that lie above it for certain leave
// the list. One workgroup a query. A list that overflowed marks its query, which is then searched another way.
@group(0) @binding(1) var<storage, read_write> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(2) var<storage, read_write> counts: array<u32>; // [queries]
@group(0) @binding(3) var<storage, read_write> lists: array<u32>; // [3, queries, capacity]: slots, lower, upper keys
@group(0) @binding(4) var<storage, read_write> overflowed: array<u32>; // [queries]: 1 when rows were lost
@group(0) @binding(5) var<storage, read> exact: array<u32>; // keys of the entries of all lists, where EXACT = 1
@group(0) @binding(6) var<storage, read> offsets: array<u32>; // [queries]: where a list starts among them

override EXACT: u32 = 0u; // 1: an interval becomes the distance that will be reported

const SHORT = 512u;
const HELD = 16u; // entries that an invocation holds: their loads are on their way together

var<workgroup> list_length: u32;
var<workgroup> threshold: u32;
var<workgroup> kept: atomic<u32>;
var<workgroup> short: array<u32, SHORT>;

fn upper_of(query: u32, entry: u32) -> u32 {
  if (EXACT == 1u) { return exact[offsets[query] + entry]; }
  return lists[2u * params.plane + query * params.capacity + entry];
}

// Counts the digit at `shift` of a key whose digits above it are those of the prefix. Two shifts, because a shift by 32 is
// none.
fn count_digit(key: u32, prefix: u32, shift: u32) {
  if (((key ^ prefix) >> shift) >> 8u == 0u) { atomicAdd(&histogram[(key >> shift) & 255u], 1u); }
}

@compute @workgroup_size(256)
fn tighten(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) {
    let count = counts[query];
    if (count > params.capacity) { overflowed[query] = 1u; }
    list_length = min(count, params.capacity);
    threshold = thresholds[query];
    atomicStore(&kept, 0u);
  }
  let length = workgroupUniformLoad(&list_length);
  var limit = workgroupUniformLoad(&threshold);
  let list = query * params.capacity;
  if (length >= params.k) {
    var uppers: array<u32, HELD>;
    // unroll
    for (var h = 0u; h < HELD; h++) {
      if (index + h * 256u < length) { uppers[h] = upper_of(query, index + h * 256u); }
    }
    var prefix = 0u;
    var rank = params.k - 1u;
    if (length <= SHORT) {
      // Few enough to compare all with all.
      // unroll
      for (var h = 0u; h < 2u; h++) { short[index + h * 256u] = uppers[h]; }
      workgroupBarrier();
      // unroll
      for (var h = 0u; h < 2u; h++) {
        if (index + h * 256u < length) {
          var below = 0u;
          var equal = 0u;
          for (var i = 0u; i < length; i++) {
            below += u32(short[i] < uppers[h]);
            equal += u32(short[i] == uppers[h]);
          }
          if (below <= rank && rank < below + equal) { threshold = uppers[h]; }
        }
      }
      prefix = workgroupUniformLoad(&threshold);
      rank = 0u;
    } else {
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
      histogram_clear(index);
      // unroll
      for (var h = 0u; h < HELD; h++) {
        if (index + h * 256u < length) { count_digit(uppers[h], prefix, u32(shift)); }
      }
      for (var i = index + HELD * 256u; i < length; i += 256u) {
        count_digit(upper_of(query, i), prefix, u32(shift));
      }
      let found = histogram_pick(index, rank);
      prefix |= found.x << u32(shift);
      rank -= found.y;
    }
    }
    limit = min(limit, prefix);
  }
  // In place: a piece of the list is in registers before any of it is written.
  for (var start = 0u; start < length; start += HELD * 256u) {
    var slots: array<u32, HELD>;
    var lowers: array<u32, HELD>;
    var uppers: array<u32, HELD>;
    // unroll
    for (var h = 0u; h < HELD; h++) {
      let i = start + h * 256u + index;
      lowers[h] = ABSENT;
      if (i < length) {
        slots[h] = lists[list + i];
        uppers[h] = upper_of(query, i);
        lowers[h] = uppers[h];
        if (EXACT == 0u) { lowers[h] = lists[params.plane + list + i]; }
      }
    }
    storageBarrier();
    workgroupBarrier();
    // unroll
    for (var h = 0u; h < HELD; h++) {
      if (lowers[h] <= limit) {
        let place = list + atomicAdd(&kept, 1u);
        lists[place] = slots[h];
        lists[params.plane + place] = lowers[h];
        lists[2u * params.plane + place] = uppers[h];
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
