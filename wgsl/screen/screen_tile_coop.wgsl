// Scores of many quantised queries on cooperative matrices: tiles of 128 queries by 128 rows. Scores only choose candidates.
@group(0) @binding(3) var<storage, read_write> scores: array<f32>; // [blocks, room, BLOCK_ROWS]

@compute @workgroup_size(WORKGROUP)
fn screen_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  var sums: Sums;
  let block = params.block_first + workgroup.y * params.block_step;
  let query = workgroup.x * HEIGHT + part_query(index);
  let own_query = workgroup.x * HEIGHT + own_query_of(index);
  multiply_tile(granules_of(own_query), granules_of(block * TILE + own_row_of(index)), index, &sums);
  let first = score_place(query, params.column_first + workgroup.y * TILE, params.room) + part_row(index);
  // unroll
  for (var i = 0u; i < MATRICES_DOWN; i++) {
    // unroll
    for (var j = 0u; j < MATRICES; j++) {
      // naga 30 accepts only named values as arguments of coopStoreT.
      let sum = sums[i][j];
      let place = first + i * SIDE * TILE + j * SIDE;
      coopStoreT(sum, &scores[place], TILE);
    }
  }
}
