// Copies rows out of the slots of a segment, in f32 and in the order of a list: an index's own rows become queries. Slots of other
// segments are skipped.
@group(0) @binding(1) var<storage, read> rows: array<Row>; // [rows of the segment, dim]
@group(0) @binding(2) var<storage, read> slots: array<u32>; // [positions]
@group(0) @binding(3) var<storage, read_write> copies: array<vec4<f32>>; // [positions, dim]

@compute @workgroup_size(WORKGROUP)
fn widen_rows(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup_number(workgroup, workgroups) * (WORKGROUP * FOURS_EACH) + index;
  // unroll
  for (var i = 0u; i < FOURS_EACH; i++) {
    let number = first + i * WORKGROUP;
    let position = number / params.vectors;
    if (position < params.positions) {
      let row = slots[position] - params.first_slot; // for a smaller slot it wraps and exceeds any row
      if (row < params.rows) { copies[number] = four_of(row, number % params.vectors); }
    }
  }
}
