// Moves rows between a buffer in their order and the slots of a segment: scatters them to their slots, or gathers them. A
// row is any number of words, so one kernel moves rows, norms and ids. Slots of other segments are skipped.
@group(0) @binding(1) var<storage, read> slots: array<u32>; // [positions]
@group(0) @binding(2) var<storage, read> moved_from: array<u32>; // [positions, words]; with GATHER = 1 [rows, words]
@group(0) @binding(3) var<storage, read_write> moved_to: array<u32>; // [rows, words]; with GATHER = 1 [positions, words]

override GATHER: u32 = 0u;

@compute @workgroup_size(WORKGROUP)
fn move_rows(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let words = params.words;
  let total = (params.end_position - params.first_position) * words;
  let first = workgroup_number(workgroup, workgroups) * (WORKGROUP * WORDS_EACH) + index;
  // unroll
  for (var i = 0u; i < WORDS_EACH; i++) {
    let number = first + i * WORKGROUP;
    if (number < total) {
      let position = params.first_position + number / words;
      let word = number % words;
      let row = slots[position] - params.first_slot; // for a smaller slot it wraps and exceeds any row
      if (row < params.rows) {
        let in_order = position * words + word;
        var in_slots = row * words + word;
        if (GATHER == 1u && params.granules > 0u) {
          in_slots = word_in_blocks(row, word, params.granules);
        }
        if (GATHER == 1u) {
          moved_to[in_order] = moved_from[in_slots] ^ params.flipped;
        } else {
          moved_to[in_slots] = moved_from[in_order];
        }
      }
    }
  }
}
