// The k smallest elements of each row by (key, id), one workgroup a row. Rows are CSR segments or of equal length.
// Up to 1,024 elements are sorted at once. A longer row is cut down by radix selection over the digits of the key and,
// where keys tie, of the id, so there is no limit on k; up to 1,024 results leave sorted, more leave in any order and
// `sort_runs` and `merge_runs` sort them. It takes any row, and rows for which quicker kernels found no threshold.
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read> ids: array<vec2<u32>>; // u64, low word first
@group(0) @binding(3) var<storage, read> offsets: array<u32>; // [rows + 1], for CSR segments; or counts of lists, or states, [rows, 4]
@group(0) @binding(4) var<storage, read_write> selected_keys: array<u32>; // [rows, k]
@group(0) @binding(5) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, k]
@group(0) @binding(6) var<storage, read_write> selected_counts: array<u32>; // [rows]: results that are not ABSENT

override POSITIONS: u32 = 0u; // 1: an element's id is its position in the row
override FLOATS: u32 = 0u; // 1: keys are still floats
override ONLY: u32 = 0u; // 0: every row, 1: rows marked FAILED, 2: rows whose list does not hold what is wanted

const DIGITS = 12u; // of 8 bits: 4 of the key, 8 of the id

var<workgroup> taken: atomic<u32>;
var<workgroup> present: atomic<u32>;
var<workgroup> is_done: u32;

fn key_at(place: u32) -> u32 {
  let word = keys[place];
  if (FLOATS == 1u) { return key_of(bitcast<f32>(word)); }
  return word;
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

/// Writes the sorted elements of workgroup memory, and nothing behind them.
fn write_sorted(index: u32, row: u32, length: u32) {
  for (var i = index; i < params.k; i += 256u) {
    var key = ABSENT;
    var id = vec2(0xffffffffu);
    if (i < length && sort_keys[min(i, SORT_MAX - 1u)] != ABSENT) {
      key = sort_keys[min(i, SORT_MAX - 1u)];
      id = sort_ids[min(i, SORT_MAX - 1u)];
      atomicAdd(&present, 1u);
    }
    selected_keys[row * params.selected_pitch + i] = key;
    selected_ids[row * params.selected_pitch + i] = id;
  }
}

@compute @workgroup_size(256)
fn select_k(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  if (ONLY == 1u) {
    if (index == 0u) { is_done = select(1u, 0u, selected_counts[row] == FAILED); }
    if (workgroupUniformLoad(&is_done) == 1u) { return; }
  }
  if (ONLY == 2u) {
    let listed = offsets[row * 4u + 2u];
    if (holds_wanted(offsets[row * 4u], offsets[row * 4u + 1u], listed)) {
      if (index == 0u) { selected_counts[row] = min(listed, params.k); }
      return;
    }
  }
  var first = row * params.pitch;
  var length = params.length;
  if (params.row_kind == 2u) { length = min(offsets[row], params.pitch); }
  if (params.row_kind == 1u) {
    first = offsets[row];
    length = offsets[row + 1u] - first;
  }
  if (index == 0u) {
    atomicStore(&taken, 0u);
    atomicStore(&present, 0u);
  }
  if (length <= SORT_MAX) {
    let padded = power_of_two_from(length);
    for (var i = index; i < padded; i += 256u) {
      sort_keys[i] = ABSENT;
      sort_ids[i] = vec2(0xffffffffu);
      if (i < length) {
        sort_keys[i] = key_at(first + i);
        sort_ids[i] = id_at(first, first + i);
      }
    }
    sort(index, padded);
    write_sorted(index, row, length);
  } else {
    var prefix = vec3(0u);
    var digits = 0u;
    var rank = min(params.k, length) - 1u;
    // With k = length every element is selected, by no digit at all.
    while (digits < DIGITS && params.k < length) {
      histogram_clear(index);
      for (var place = first + index; place < first + length; place += 256u) {
        let key = key_at(place);
        if (compare_leading(key, first, place, prefix, digits) == 0) {
          var id = vec2(0u);
          if (digits >= 4u) { id = id_at(first, place); }
          atomicAdd(&histogram[digit_of(key, id, digits)], 1u);
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
    let sorts = params.k <= SORT_MAX;
    let padded = power_of_two_from(min(params.k, SORT_MAX));
    workgroupBarrier();
    if (sorts) {
      for (var i = index; i < padded; i += 256u) {
        sort_keys[i] = ABSENT;
        sort_ids[i] = vec2(0xffffffffu);
      }
    }
    workgroupBarrier();
    for (var place = first + index; place < first + length; place += 256u) {
      let key = key_at(place);
      // Where fewer than k are present, the ones that are not tie with each other and must not take a place.
      if (key != ABSENT && compare_leading(key, first, place, prefix, digits) <= 0) {
        let target_place = atomicAdd(&taken, 1u);
        let id = id_at(first, place);
        if (target_place < params.k) {
          if (sorts) {
            sort_keys[min(target_place, SORT_MAX - 1u)] = key;
            sort_ids[min(target_place, SORT_MAX - 1u)] = id;
          } else {
            selected_keys[row * params.selected_pitch + target_place] = key;
            selected_ids[row * params.selected_pitch + target_place] = id;
          }
        }
      }
    }
    if (sorts) {
      sort(index, padded);
      write_sorted(index, row, params.k);
    } else {
      workgroupBarrier();
      let found = min(atomicLoad(&taken), params.k);
      if (index == 0u) { atomicStore(&present, found); }
      for (var i = found + index; i < params.k; i += 256u) {
        selected_keys[row * params.selected_pitch + i] = ABSENT;
        selected_ids[row * params.selected_pitch + i] = vec2(0xffffffffu);
      }
    }
  }
  workgroupBarrier();
  if (index == 0u) { selected_counts[row] = atomicLoad(&present); }
}
