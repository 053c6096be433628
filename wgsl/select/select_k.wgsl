// The k smallest elements of each row by (key, id), one workgroup per row, for rows of any kind and any k. A row of up to
// 4,096 elements is held in registers, unless ONLY is 2; a threshold that few more than k elements pass is found, and those are sorted. A
// longer row, or one in which too many elements tie, is cut down by radix selection over the digits of the key and, where
// keys tie, of the id. Up to 1,024 results leave sorted; more leave in any order, and `sort_runs` and `merge_runs` sort
// them. The kernel also takes rows for which faster kernels found no threshold.
@group(0) @binding(1) var<storage, read> keys_or_floats: array<u32>;
@group(0) @binding(2) var<storage, read> ids: array<vec2<u32>>; // u64, low word first
@group(0) @binding(3) var<storage, read> offsets: array<u32>; // [rows + 1] for CSR segments, [rows] counts for lists
@group(0) @binding(4) var<storage, read_write> selected_keys: array<u32>; // [rows, k]
@group(0) @binding(5) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, k]
@group(0) @binding(6) var<storage, read_write> selected_counts: array<u32>; // [rows]: results that are not ABSENT

override POSITIONS: u32 = 0u; // 1: an element's id is its position in the row
override FLOATS: u32 = 0u; // 1: keys are still floats
override ONLY: u32 = 0u; // 0: every row; 1: rows marked FAILED; 2: every row, for a k up to RANKED: less to compile

const DIGITS = 12u; // of 8 bits: 4 of the key, 8 of the id

var<workgroup> taken: atomic<u32>;
var<workgroup> tied: atomic<u32>; // elements whose digits are those of the prefix
var<workgroup> waiting: atomic<u32>; // one bit per row that is left to do

/// Keys that an invocation loads together, at most.
const TURNS = 8u;

/// How many it loads. A kernel that loads two together compiles sooner.
fn turns() -> u32 { return select(TURNS, 2u, ONLY == 2u); }

/// Every WORKGROUP-th key of a row, from number `start` on.
fn keys_from(first: u32, start: u32, length: u32) -> array<u32, TURNS> {
  var keys: array<u32, TURNS>;
  // unroll on hardware
  for (var i = 0u; i < TURNS; i++) {
    if (i < turns()) { keys[i] = keys_or_floats[first + min(start + i * WORKGROUP, length - 1u)]; }
  }
  if (FLOATS == 1u) {
    // unroll on hardware
    for (var i = 0u; i < TURNS; i++) {
      if (i < turns()) { keys[i] = key_of(bitcast<f32>(keys[i])); }
    }
  }
  return keys;
}

fn id_at(first: u32, place: u32) -> vec2<u32> {
  if (POSITIONS == 1u) { return vec2(place - first, 0u); }
  return ids[place];
}

/// Digit number `digit` of an element, most significant first.
fn digit_of(key: u32, id: vec2<u32>, digit: u32) -> u32 {
  var word = key;
  if (digit >= 4u) { word = id.y; }
  if (digit >= 8u) { word = id.x; }
  return (word >> (24u - 8u * (digit & 3u))) & 255u;
}

/// The first `digits` digits of a word, the others 0.
fn leading(word: u32, digits: u32) -> u32 {
  if (digits == 0u) { return 0u; }
  return word & (0xffffffffu << (32u - 8u * min(digits, 4u)));
}

/// -1, 0 or 1: how the first `digits` digits of an element compare with those of the prefix.
fn compare_leading(key: u32, first: u32, place: u32, prefix: vec3<u32>, digits: u32) -> i32 {
  let word = leading(key, digits);
  if (word != prefix.x) { return select(1, -1, word < prefix.x); }
  if (digits <= 4u) { return 0; }
  let id = id_at(first, place);
  let high = leading(id.y, digits - 4u);
  if (high != prefix.y) { return select(1, -1, high < prefix.y); }
  if (digits <= 8u) { return 0; }
  let low = leading(id.x, digits - 8u);
  if (low != prefix.z) { return select(1, -1, low < prefix.z); }
  return 0;
}

/// Sorts the first `count` elements of workgroup memory, and writes the first k as a row's results. Up to RANKED of them are ranked by
/// comparing all with all, which needs no barriers.
fn write_sorted(index: u32, row: u32, count: u32) {
  let start = row * params.selected_pitch;
  if (ONLY == 2u || count <= RANKED) {
    if (index < count) {
      let key = sort_keys[index];
      let id = sort_ids[index];
      var rank = 0u;
      for (var i = 0u; i < count; i += 1u) {
        // Equal elements keep their order.
        let comes_first = is_before(sort_keys[i], sort_ids[i], key, id) || (i < index && !is_before(key, id, sort_keys[i], sort_ids[i]));
        rank += select(0u, 1u, comes_first);
      }
      if (rank < params.k) { write(start + rank, key, id); }
    }
  } else {
    let padded = power_of_two_from(count);
    for (var i = count + index; i < padded; i += WORKGROUP) {
      sort_keys[i] = ABSENT;
      sort_ids[i] = vec2(0xffffffffu);
    }
    sort(index, padded);
    for (var i = index; i < min(count, params.k); i += WORKGROUP) { write(start + i, sort_keys[i], sort_ids[i]); }
  }
}

fn write(at: u32, key: u32, id: vec2<u32>) {
  selected_keys[at] = key;
  selected_ids[at] = id;
}

/// Writes ABSENT behind the `count` results of a row, and their number.
fn write_nothing(index: u32, row: u32, count: u32) {
  for (var i = count + index; i < params.k; i += WORKGROUP) {
    write(row * params.selected_pitch + i, ABSENT, vec2(0xffffffffu));
  }
  if (index == 0u) { selected_counts[row] = min(count, params.k); }
}

/// Keeps an element: for sorting, or among the results if those leave in any order.
fn take(row: u32, key: u32, id: vec2<u32>) {
  let at = atomicAdd(&taken, 1u);
  if (params.k <= SORTED_MAX) {
    if (at < SORTED_MAX) {
      sort_keys[at] = key;
      sort_ids[at] = id;
    }
  } else if (at < params.k) {
    write(row * params.selected_pitch + at, key, id);
  }
}

/// Takes elements of a row of up to 4,096 that is held in registers, the k smallest among them, and says how many. More than SORTED_MAX if
/// too many tie with the k-th to have room.
fn take_held(row: u32, first: u32, length: u32, lanes: Lanes) -> u32 {
  let vectors = (length + 4u * WORKGROUP - 1u) >> 10u;
  var keys = nothing_held();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      if (v < vectors) { keys[v][i] = keys_or_floats[min(first + (4u * v + i) * WORKGROUP + lanes.index, first + length - 1u)]; }
    }
  }
  // A loop of its own: all loads are in flight before the first use.
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    let places = vec4(lanes.index) + (4u * v + vec4(0u, 1u, 2u, 3u)) * WORKGROUP;
    keys[v] = select(vec4(ABSENT), exact_keys(keys[v]), places < vec4(length));
  }
  // Ties are broken by ids, which are not held, so all tying elements must pass.
  let k = min(params.k, length);
  let nowhere = Held(vec4(0u), vec4(0u), vec4(0u), vec4(0u));
  let limit = threshold_of(keys, nowhere, vectors, k, max(32u, power_of_two_from(k)), 0u, lanes);
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      if (v < vectors && keys[v][i] <= limit.key) {
        take(row, keys[v][i], id_at(first, first + (4u * v + i) * WORKGROUP + lanes.index));
      }
    }
  }
  return workgroupUniformLoad(&taken);
}

@compute @workgroup_size(WORKGROUP)
fn select_k(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let number = workgroup_number(workgroup, workgroups);
  if (ONLY != 1u) {
    if (number < params.rows) { select_one(number, lanes); }
    return;
  }
  // Few rows are left to do, if any, so a workgroup looks at several.
  if (lanes.index == 0u) { atomicStore(&waiting, 0u); }
  workgroupBarrier();
  let row = number * params.rows_each + lanes.index;
  if (lanes.index < params.rows_each && row < params.rows && selected_counts[row] == FAILED) { atomicOr(&waiting, 1u << lanes.index); }
  for (var left = workgroupUniformLoad(&waiting); left != 0u; left &= left - 1u) {
    select_one(number * params.rows_each + firstTrailingBit(left), lanes);
    workgroupBarrier();
  }
}

fn select_one(row: u32, lanes: Lanes) {
  let index = lanes.index;
  var first = row * params.pitch;
  var length = params.length;
  if (params.row_kind == ROWS_LISTS) { length = min(offsets[row], params.pitch); }
  if (params.row_kind == ROWS_CSR) {
    first = offsets[row];
    // Whatever the offsets say, loops over the row end.
    length = min(max(offsets[row + 1u], first) - first, arrayLength(&keys_or_floats));
  }
  if (index == 0u) { atomicStore(&taken, 0u); }
  workgroupBarrier();
  // Each way only takes elements, and one place writes them: drivers compile what is called as often as it is called.
  var count = 0u;
  var is_taken = length == 0u;
  if (ONLY != 1u && length > 0u && length <= RANKED && params.k <= SORTED_MAX) {
    // Few elements need no threshold, and their ids are loaded with the keys.
    if (index < length) {
      let key = keys_from(first, index, length)[0];
      let id = id_at(first, first + index);
      if (key != ABSENT) { take(row, key, id); }
    }
    count = workgroupUniformLoad(&taken);
    is_taken = true;
  } else if (ONLY == 0u && length > RANKED && length <= 16u * WORKGROUP && params.k <= SORTED_MAX) {
    count = take_held(row, first, length, lanes);
    is_taken = count <= SORTED_MAX;
    if (!is_taken) {
      workgroupBarrier();
      if (index == 0u) { atomicStore(&taken, 0u); }
    }
  }
  if (!is_taken) {
    take_by_digits(index, row, first, length);
    count = min(workgroupUniformLoad(&taken), params.k);
  }
  if (params.k <= SORTED_MAX) { write_sorted(index, row, count); }
  write_nothing(index, row, count);
}

/// Takes the k smallest elements, by the digits of their keys and ids.
fn take_by_digits(index: u32, row: u32, first: u32, length: u32) {
  var prefix = vec3(0u);
  var digits = 0u;
  var rank = min(params.k, length) - 1u;
  // With k = length every element is selected, whatever its digits.
  while (digits < DIGITS && params.k < length) {
    histogram_clear(index);
    for (var start = index; start < length; start += turns() * WORKGROUP) {
      let keys = keys_from(first, start, length);
      // unroll on hardware
      for (var i = 0u; i < TURNS; i++) {
        let place = first + start + i * WORKGROUP;
        if (i < turns() && start + i * WORKGROUP < length && compare_leading(keys[i], first, place, prefix, digits) == 0) {
          var id = vec2(0u);
          if (digits >= 4u) { id = id_at(first, place); }
          atomicAdd(&histogram[digit_of(keys[i], id, digits)], 1u);
        }
      }
    }
    let found = histogram_pick(index, rank);
    let digit = found.x << (24u - 8u * (digits & 3u));
    if (digits < 4u) { prefix.x |= digit; } else if (digits < 8u) { prefix.y |= digit; } else { prefix.z |= digit; }
    rank -= found.y;
    digits += 1u;
    // All elements with these digits are wanted.
    if (rank + 1u == found.z) { break; }
  }
  if (index == 0u) { atomicStore(&tied, 0u); }
  workgroupBarrier();
  for (var start = index; start < length; start += turns() * WORKGROUP) {
    let keys = keys_from(first, start, length);
    // unroll on hardware
    for (var i = 0u; i < TURNS; i++) {
      let place = first + start + i * WORKGROUP;
      // If fewer than k are present, the ABSENT ones tie with each other and must not take a place.
      if (i < turns() && start + i * WORKGROUP < length && keys[i] != ABSENT) {
        let order = compare_leading(keys[i], first, place, prefix, digits);
        // Equal elements may be more than are wanted. They must not take the places of smaller ones.
        if (order < 0 || (order == 0 && atomicAdd(&tied, 1u) <= rank)) { take(row, keys[i], id_at(first, place)); }
      }
    }
  }
}
