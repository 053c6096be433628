// Merges neighbouring sorted runs of each row: an element's place is its own rank plus its rank in the other run,
// which a binary search finds. One invocation an element.
@group(0) @binding(1) var<storage, read> keys: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read> ids: array<vec2<u32>>; // [rows, pitch]
@group(0) @binding(3) var<storage, read_write> merged_keys: array<u32>; // [rows, merged_pitch]
@group(0) @binding(4) var<storage, read_write> merged_ids: array<vec2<u32>>; // [rows, merged_pitch]
@group(0) @binding(5) var<storage, read> states: array<u32>; // [rows, 4], for lists
@group(0) @binding(6) var<storage, read> counts: array<u32>; // [rows], for lists that were filled again

override LISTS: u32 = 0u; // 1: rows are lists of lengths of their own

@compute @workgroup_size(256)
fn merge_runs(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup.y * params.pitch;
  let merged_first = workgroup.y * params.merged_pitch;
  let length = length_of(workgroup.y);
  for (var i = workgroup.x * 256u + index; i < length; i += workgroups.x * 256u) {
    merge(first, merged_first, length, i);
  }
  // Behind a list that is shorter than its results there is nothing.
  if (params.fills != 0u) {
    for (var i = length + workgroup.x * 256u + index; i < params.merged_length; i += workgroups.x * 256u) {
      merged_keys[merged_first + i] = 0xffffffffu;
      merged_ids[merged_first + i] = vec2(0xffffffffu);
    }
  }
}

/// Puts element `i` of the row that starts at `first` into its place.
fn merge(first: u32, merged_first: u32, length: u32, i: u32) {
  let run = params.run;
  let pair_start = i & ~(2u * run - 1u);
  let middle = min(pair_start + run, length);
  let end = min(pair_start + 2u * run, length);
  let is_left = i < middle;
  let other_start = select(pair_start, middle, is_left);
  let key = keys[first + i];
  let id = ids[first + i];
  var low = other_start;
  var high = select(middle, end, is_left);
  while (low < high) {
    let at = (low + high) >> 1u;
    let other_key = keys[first + at];
    let other_id = ids[first + at];
    // Equal elements keep their order, left before right.
    var other_first = is_before(other_key, other_id, key, id);
    if (!is_left) { other_first = !is_before(key, id, other_key, other_id); }
    if (other_first) { low = at + 1u; } else { high = at; }
  }
  let own_rank = i - select(middle, pair_start, is_left);
  let place = pair_start + own_rank + (low - other_start);
  if (place < params.merged_length) {
    merged_keys[merged_first + place] = key;
    merged_ids[merged_first + place] = id;
  }
}
