// Merges neighbouring sorted runs of each row, one workgroup per 1,024 results. It finds where its results begin and end in
// both runs, and merges those parts in workgroup memory: an element's place is its own rank plus its rank in the other part.
@group(0) @binding(1) var<storage, read> keys: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read> ids: array<vec2<u32>>; // [rows, pitch]
@group(0) @binding(3) var<storage, read_write> merged_keys: array<u32>; // [rows, pitch]
@group(0) @binding(4) var<storage, read_write> merged_ids: array<vec2<u32>>; // [rows, pitch]
@group(0) @binding(5) var<storage, read> states: array<u32>; // [rows, 4]

override ONLY: u32 = 0u; // 0: every row; 1: rows whose state says that sorting failed

const TILE = SORTED_MAX;
var<workgroup> tile_keys: array<u32, TILE>;
var<workgroup> tile_ids: array<vec2<u32>, TILE>;
var<workgroup> passed: array<atomic<u32>, 2>;
var<workgroup> cuts: array<u32, 2>;

@compute @workgroup_size(WORKGROUP)
fn merge_runs(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  if (ONLY == 1u) {
    if (index == 0u) { cuts[0] = states[workgroup.y * 4u + 3u]; }
    if (workgroupUniformLoad(&cuts[0]) == 0u) { return; }
  }
  for (var start = workgroup.x * TILE; start < params.length; start += workgroups.x * TILE) {
    merge(workgroup.y * params.pitch, start, index);
    workgroupBarrier();
  }
}

/// Merges the results from `start` on, of a row that starts at `first`.
fn merge(first: u32, start: u32, index: u32) {
  let length = params.length;
  let pair = start & ~(2u * params.run - 1u);
  let middle = min(pair + params.run, length);
  let end = min(pair + 2u * params.run, length);
  let count = min(TILE, end - start);
  // One half of the workgroup finds how much of the left run lies before the tile, the other half before its end.
  let half = index >> 7u;
  let cut = left_before(first + pair, first + middle, vec2(middle - pair, end - middle), start - pair + half * count, index);
  if ((index & 127u) == 0u) { cuts[half] = cut; }
  workgroupBarrier();
  let left_start = cuts[0];
  let left_count = cuts[1] - left_start;
  let right_start = start - pair - left_start;
  var own_keys: array<u32, 4>;
  var own_ids: array<vec2<u32>, 4>;
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    let at = min(index + i * WORKGROUP, count - 1u);
    let left = first + pair + left_start + at;
    let right = first + middle + right_start + at - left_count;
    let source = select(right, left, at < left_count);
    own_keys[i] = keys[source];
    own_ids[i] = ids[source];
  }
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    if (index + i * WORKGROUP < count) {
      tile_keys[index + i * WORKGROUP] = own_keys[i];
      tile_ids[index + i * WORKGROUP] = own_ids[i];
    }
  }
  workgroupBarrier();
  var places: array<u32, 4>;
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    let at = index + i * WORKGROUP;
    let is_left = at < left_count;
    let other = select(0u, left_count, is_left);
    var low = other;
    var high = select(left_count, count, is_left);
    while (low < high) {
      let probe = (low + high) >> 1u;
      // Equal elements keep their order: left before right.
      var other_first = is_before(tile_keys[probe], tile_ids[probe], own_keys[i], own_ids[i]);
      if (!is_left) { other_first = !is_before(own_keys[i], own_ids[i], tile_keys[probe], tile_ids[probe]); }
      if (other_first) { low = probe + 1u; } else { high = probe; }
    }
    places[i] = at - select(left_count, 0u, is_left) + low - other;
  }
  workgroupBarrier();
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    if (index + i * WORKGROUP < count) {
      tile_keys[places[i]] = own_keys[i];
      tile_ids[places[i]] = own_ids[i];
    }
  }
  workgroupBarrier();
  for (var i = index; i < count; i += WORKGROUP) {
    merged_keys[first + start + i] = tile_keys[i];
    merged_ids[first + start + i] = tile_ids[i];
  }
}

/// Counts the left run's elements among the first `total` of both runs: the place of the first that comes behind its partner in
/// the right run. Each half of the workgroup has its own total, and tries 128 places at a time.
fn left_before(left: u32, right: u32, lengths: vec2<u32>, total: u32, index: u32) -> u32 {
  let half = index >> 7u;
  let lane = index & 127u;
  var low = max(total, lengths.y) - lengths.y;
  var high = min(total, lengths.x);
  for (var reach = params.run; reach > 0u; reach = ((reach + 127u) >> 7u) - 1u) {
    workgroupBarrier();
    if (lane == 0u) { atomicStore(&passed[half], 0u); }
    workgroupBarrier();
    let step = (high - low + 127u) >> 7u;
    let probe = low + lane * step;
    if (probe < high) {
      let partner = right + total - 1u - probe;
      if (!is_before(keys[partner], ids[partner], keys[left + probe], ids[left + probe])) {
        atomicAdd(&passed[half], 1u);
      }
    }
    workgroupBarrier();
    let count = atomicLoad(&passed[half]);
    high = min(high, low + count * step);
    low += select((count - 1u) * step + 1u, 0u, count == 0u);
  }
  return low;
}
