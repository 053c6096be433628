// Scores of the rows of lists against the queries that probe them, by four-way integer products. It works as
// `screen_tile_i8` does, but gathers the queries of a list and finds its rows by their pages. A workgroup computes blocks of
// 32 queries by 128 rows, one after the other, each invocation 4 x 8 of it in registers.
const TILE = BLOCK_ROWS; // rows
const WORDS = 8u; // words of a vector in a slice
const ACROSS = 16u; // invocations along rows
const QUERY_PITCH = HEIGHT / 4u + 1u; // one vector more than needed avoids bank conflicts
const ROW_PITCH = TILE / 4u + 1u;
const GRANULES = WORDS / 4u;

@group(0) @binding(7) var<storage, read_write> scores: array<vec4<f32>>; // [blocks, HEIGHT, BLOCK_ROWS]

var<workgroup> query_slice: array<array<vec4<u32>, QUERY_PITCH>, WORDS>;
var<workgroup> row_slice: array<array<vec4<u32>, ROW_PITCH>, WORDS>;

@compute @workgroup_size(WORKGROUP)
fn screen_lists_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let across = index % ACROSS;
  let down = index / ACROSS;
  // Every invocation loads the granules of one row, and half of them also load a granule of a query.
  let own_query = index % HEIGHT;
  let own_granule = index / HEIGHT;
  let end = min(starts[params.lists].y, params.block_first + params.blocks);
  for (var number = params.block_first + workgroup.x; number < end; number += workgroups.x) {
    let block = block_of(number);
    let first_query = query_start(block, own_query);
    let first_row = row_start(block, index);
    var sums: array<array<vec4<i32>, 2>, 4>;
    var next_row: array<vec4<u32>, GRANULES>;
    var next_query = vec4(0u);
    if (own_granule < GRANULES) { next_query = queries[first_query + own_granule * TILE]; }
    // unroll
    for (var g = 0u; g < GRANULES; g++) { next_row[g] = rows[first_row + g * TILE]; }
    for (var start = 0u; start < params.granules; start += GRANULES) {
      // unroll
      for (var w = 0u; w < 4u; w++) {
        // Stored with 128 added: flipping the highest bit subtracts it.
        if (own_granule < GRANULES) {
          query_slice[own_granule * 4u + w][own_query / 4u][own_query % 4u] = next_query[w] ^ 0x80808080u;
        }
        // unroll
        for (var g = 0u; g < GRANULES; g++) {
          row_slice[g * 4u + w][index / 4u][index % 4u] = next_row[g][w] ^ 0x80808080u;
        }
      }
      workgroupBarrier();
      let ahead = start + GRANULES;
      if (ahead < params.granules) {
        if (own_granule < GRANULES) { next_query = queries[first_query + (ahead + own_granule) * TILE]; }
        // unroll
        for (var g = 0u; g < GRANULES; g++) { next_row[g] = rows[first_row + (ahead + g) * TILE]; }
      }
      // unroll
      for (var w = 0u; w < WORDS; w++) {
        let query = query_slice[w][down];
        // unroll
        for (var j = 0u; j < 2u; j++) {
          let four = row_slice[w][j * ACROSS + across];
          // unroll
          for (var e = 0u; e < 4u; e++) {
            sums[e][j] += vec4(
              dot4I8Packed(query[e], four.x),
              dot4I8Packed(query[e], four.y),
              dot4I8Packed(query[e], four.z),
              dot4I8Packed(query[e], four.w),
            );
          }
        }
      }
      workgroupBarrier();
    }
    let first = ((number - params.block_first) * HEIGHT + down * 4u) * (TILE / 4u) + across;
    // unroll
    for (var e = 0u; e < 4u; e++) {
      // unroll
      for (var j = 0u; j < 2u; j++) {
        scores[first + e * (TILE / 4u) + j * ACROSS] = vec4<f32>(sums[e][j]);
      }
    }
  }
}
