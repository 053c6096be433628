// The largest length and residual of the quantised tokens of each document. Segments follow each other: each adds its tokens.
@group(0) @binding(1) var<storage, read> ends: array<u32>; // [places]: one past the last slot
@group(0) @binding(2) var<storage, read> row_terms: array<vec4<f32>>; // [rows of the segment]
@group(0) @binding(3) var<storage, read_write> longest: array<vec2<f32>>; // [places]

@compute @workgroup_size(WORKGROUP)
fn maxsim_longest(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let place = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  if (place >= params.places) { return; }
  var start = 0u;
  if (place > 0u) { start = ends[place - 1u]; }
  start = max(start, params.first_slot);
  let end = min(ends[place], params.first_slot + params.rows);
  var most = longest[place];
  for (var slot = start; slot < end; slot++) { most = max(most, row_terms[slot - params.first_slot].yz); }
  longest[place] = most;
}
