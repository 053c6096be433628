// Scores of many quantised queries by four-way integer products: tiles of 128 queries by 128 rows. Scores only choose candidates.
@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [blocks, room, BLOCK_ROWS]

@compute @workgroup_size(WORKGROUP)
fn screen_tile_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  var sums: Sums;
  multiply_tile(workgroup.x, params.block_first + workgroup.y * params.block_step, index, &sums);
  let first_column = params.column_first + workgroup.y * TILE;
  // A copy, because an index that is not a constant would take the sums out of the registers in which they are multiplied.
  var totals = sums;
  // unroll on hardware
  for (var i = 0u; i < 2u; i++) {
    // unroll on hardware
    for (var e = 0u; e < 4u; e++) {
      // unroll on hardware
      for (var j = 0u; j < FOURS; j++) {
        let query = workgroup.x * TILE + (i * DOWN + index / ACROSS) * 4u + e;
        let place = score_place(query, first_column, params.room) / 4u + j * ACROSS + index % ACROSS;
        scores[place] = vec4<f32>(totals[i * 4u + e][j]);
      }
    }
  }
}
