// Copies the codes and terms of the rows in some slots into blocks of their own, in the order of a list. One invocation copies a granule;
// neighbouring invocations copy that of neighbouring rows. Places behind the last row receive zeros.
@group(0) @binding(1) var<storage, read> slots: array<u32>; // [entries]
@group(0) @binding(2) var<storage, read> codes: array<vec4<u32>>; // of the segment, blocks of BLOCK_ROWS rows
@group(0) @binding(3) var<storage, read> terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read_write> gathered: array<vec4<u32>>; // blocks of BLOCK_ROWS rows
@group(0) @binding(5) var<storage, read_write> gathered_terms: array<vec4<f32>>; // [places]

@compute @workgroup_size(WORKGROUP)
fn gather(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  let places = params.end_place - params.first_place;
  let granule = number / places;
  if (granule >= params.granules) { return; }
  let place = params.first_place + number % places;
  let is_row = place < params.entries;
  // For a place behind the last row no slot is read, and for a smaller slot the row wraps and exceeds any.
  let row = select(0u, slots[min(place, params.entries - 1u)] - params.first_slot, is_row);
  if (is_row && row >= params.rows) { return; }
  let copied = codes[granules_of(row) + granule * BLOCK_ROWS];
  gathered[granules_of(place) + granule * BLOCK_ROWS] = select(vec4(0u), copied, is_row);
  if (granule == 0u) { gathered_terms[place] = select(vec4(0.0), terms[row], is_row); }
}
