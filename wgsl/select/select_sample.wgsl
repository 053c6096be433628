// A threshold for each row from a sample of it, one workgroup per row: the first step of selecting from few long rows. The
// kernel also empties the lists that `select_filter` fills.
@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> states: array<vec4<u32>>; // [rows]: see lib/select/states.wgsl

override FLOATS: u32 = 0u; // 1: values are floats, 0: keys
override HELD: u32 = 1u; // vectors of the sample that an invocation holds

@compute @workgroup_size(WORKGROUP)
fn select_sample(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  let begin = row * params.pitch;
  let end = begin + params.length;
  let held = sample(begin, (begin + 3u) >> 2u, end >> 2u, lanes.index);
  let limit =
    threshold_by_buckets(held.keys, held.places, HELD, params.fewest, params.most, params.length - 1u, lanes);
  if (lanes.index == 0u) { states[row] = vec4(limit.key, limit.place, 0u, 0u); }
}
