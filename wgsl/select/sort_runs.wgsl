// Sorts every run of 1,024 elements of each row by (key, id), in place: the first step of sorting long rows.
@group(0) @binding(1) var<storage, read_write> keys: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> ids: array<vec2<u32>>; // [rows, pitch]

@compute @workgroup_size(WORKGROUP)
fn sort_runs(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup.y * params.pitch;
  let start = workgroup.x * SORTED_MAX;
  for (var i = index; i < SORTED_MAX; i += WORKGROUP) {
    sort_keys[i] = ABSENT;
    sort_ids[i] = vec2(0xffffffffu);
    if (start + i < params.length) {
      sort_keys[i] = keys[first + start + i];
      sort_ids[i] = ids[first + start + i];
    }
  }
  sort(index, SORTED_MAX);
  for (var i = index; i < SORTED_MAX; i += WORKGROUP) {
    if (start + i < params.length) {
      keys[first + start + i] = sort_keys[i];
      ids[first + start + i] = sort_ids[i];
    }
  }
}
