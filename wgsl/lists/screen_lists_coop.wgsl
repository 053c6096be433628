// Scores of the rows of lists against the queries that probe them, on cooperative matrices. It works as `screen_tile_coop`
// does, but gathers the queries of a list and finds its rows by their pages. A workgroup of four subgroups computes blocks
// of 32 queries by 128 rows, one after the other, each subgroup 32 x 32 of it.
const TILE = BLOCK_ROWS; // rows
const PART_ROWS = 32u;
const DEPTH = 32u; // dimensions of a slice
const GRANULES = DEPTH / 16u;
const PITCH = (DEPTH + 8u) / 4u; // vectors from row to row; more than needed avoids bank conflicts
const DOWN = HEIGHT / SIDE;
const ACROSS = PART_ROWS / SIDE;

@group(0) @binding(7) var<storage, read_write> scores: array<f32>; // [blocks, HEIGHT, BLOCK_ROWS]

var<workgroup> query_slice: array<vec4<f16>, HEIGHT * PITCH>;
var<workgroup> row_slice: array<vec4<f16>, TILE * PITCH>;

@compute @workgroup_size(WORKGROUP)
fn screen_lists_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let subgroup = index / 32u;
  let part_row = subgroup * PART_ROWS;
  // Every invocation loads the granules of one row, and half of them also load a granule of a query.
  let own_query = index % HEIGHT;
  let own_granule = index / HEIGHT;
  let end = min(starts[params.lists].y, params.block_first + params.blocks);
  for (var number = params.block_first + workgroup.x; number < end; number += workgroups.x) {
    let block = block_of(number);
    let first_query = query_start(block, own_query);
    let first_row = row_start(block, index);
    var sums: array<array<Sum, ACROSS>, DOWN>;
    var next_row: array<vec4<u32>, GRANULES>;
    var next_query = vec4(0u);
    if (own_granule < GRANULES) { next_query = queries[first_query + own_granule * TILE]; }
    // unroll
    for (var g = 0u; g < GRANULES; g++) { next_row[g] = rows[first_row + g * TILE]; }
    for (var start = 0u; start < params.granules; start += GRANULES) {
      // unroll
      for (var w = 0u; w < 4u; w++) {
        if (own_granule < GRANULES) { query_slice[own_query * PITCH + own_granule * 4u + w] = widen_integers(next_query[w]); }
        // unroll
        for (var g = 0u; g < GRANULES; g++) {
          row_slice[index * PITCH + g * 4u + w] = widen_integers(next_row[g][w]);
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
      for (var d = 0u; d < DEPTH / 4u; d += SIDE / 4u) {
        var right: array<Right, ACROSS>;
        // unroll
        for (var j = 0u; j < ACROSS; j++) {
          right[j] = coopLoad<Right>(&row_slice[(part_row + j * SIDE) * PITCH + d], PITCH);
        }
        // unroll
        for (var i = 0u; i < DOWN; i++) {
          let left = coopLoadT<Left>(&query_slice[(i * SIDE) * PITCH + d], PITCH);
          // unroll
          for (var j = 0u; j < ACROSS; j++) {
            sums[i][j] = coopMultiplyAdd(left, right[j], sums[i][j]);
          }
        }
      }
      workgroupBarrier();
    }
    // naga 30 accepts only named values as arguments of coopStoreT.
    let first = (number - params.block_first) * HEIGHT * TILE + part_row;
    // unroll
    for (var i = 0u; i < DOWN; i++) {
      // unroll
      for (var j = 0u; j < ACROSS; j++) {
        let sum = sums[i][j];
        let place = first + i * SIDE * TILE + j * SIDE;
        coopStoreT(sum, &scores[place], TILE);
      }
    }
  }
}
