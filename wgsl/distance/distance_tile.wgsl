// Dot products of many queries with many rows. A workgroup computes a tile of 128 x 128, each invocation 8 x 16 or 8 x 8
// of it in registers. Slices of 8 dimensions of both operands lie transposed in workgroup memory while the next slices are loaded.
// Loops over registers are unrolled, or the registers would become memory. Scores only choose candidates.
//
// `pairs_tile` and `tile_i8` multiply slices in the same way. As one function that all three call, other compilers of Mesa's made the same code of
// it or hardly more, and the M1's had 128 instructions more for 64 sums.
const TILE = BLOCK_ROWS; // queries, and rows
const DEPTH = 8u; // dimensions of a slice
const DOWN = 16u; // invocations along queries
const ACROSS = WORKGROUP / DOWN; // invocations along rows
const FOURS = REGISTERS / 8u / 4u; // vectors of four rows of an invocation, which has 8 queries
const PITCH = TILE / 4u + 1u; // one vector more than needed avoids bank conflicts
const SLICE = DEPTH / 4u; // vectors of a row in a slice
const LOADS = TILE * SLICE / WORKGROUP; // vectors of each operand that an invocation loads
const LOAD_STEP = TILE / LOADS;

@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [queries padded to TILE, dim]
@group(0) @binding(2) var<storage, read> rows: array<Row>; // [rows, dim]
@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [blocks, room, BLOCK_ROWS]

// One array per dimension: indices within it do not depend on the dimension, so their bounds are checked once and not in
// the innermost loop.
var<workgroup> query_slice: array<array<vec4<f32>, PITCH>, DEPTH>;
var<workgroup> row_slice: array<array<vec4<f32>, PITCH>, DEPTH>;

@compute @workgroup_size(WORKGROUP)
fn distance_tile(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let across = index % ACROSS;
  let down = index / ACROSS;
  let vectors = params.vectors;
  let load_row = index / SLICE;
  let load_vector = index % SLICE;
  let first_query = workgroup.x * TILE + load_row;
  let first_row = (params.block_first + workgroup.y * params.block_step) * TILE + load_row;
  var sums: array<array<vec4<f32>, FOURS>, 8>;
  var next_query: array<vec4<f32>, LOADS>;
  var next_row: array<vec4<f32>, LOADS>;
  // unroll
  for (var i = 0u; i < LOADS; i++) {
    // A row may end within the first slice.
    if (load_vector < vectors) {
      next_query[i] = queries[(first_query + i * LOAD_STEP) * vectors + load_vector];
      next_row[i] = four_of(first_row + i * LOAD_STEP, load_vector);
    }
  }
  for (var start = 0u; start < vectors; start += SLICE) {
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      let column = load_row + i * LOAD_STEP;
      // unroll
      for (var j = 0u; j < 4u; j++) {
        query_slice[load_vector * 4u + j][column / 4u][column % 4u] = next_query[i][j];
        row_slice[load_vector * 4u + j][column / 4u][column % 4u] = next_row[i][j];
      }
    }
    workgroupBarrier();
    let ahead = start + SLICE + load_vector;
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      if (ahead < vectors) {
        next_query[i] = queries[(first_query + i * LOAD_STEP) * vectors + ahead];
        next_row[i] = four_of(first_row + i * LOAD_STEP, ahead);
      } else {
        next_query[i] = vec4(0.0);
        next_row[i] = vec4(0.0);
      }
    }
    // unroll with many registers
    for (var d = 0u; d < DEPTH; d++) {
      var four = array<vec4<f32>, FOURS>();
      // unroll
      for (var j = 0u; j < FOURS; j++) {
        four[j] = row_slice[d][j * ACROSS + across];
      }
      // unroll
      for (var i = 0u; i < 2u; i++) {
        let query = query_slice[d][i * DOWN + down];
        // unroll
        for (var e = 0u; e < 4u; e++) {
          // unroll
          for (var j = 0u; j < FOURS; j++) {
            sums[i * 4u + e][j] = fma(vec4(query[e]), four[j], sums[i * 4u + e][j]);
          }
        }
      }
    }
    workgroupBarrier();
  }
  let first_column = params.column_first + workgroup.y * TILE;
  // unroll
  for (var i = 0u; i < 2u; i++) {
    // unroll
    for (var e = 0u; e < 4u; e++) {
      // unroll
      for (var j = 0u; j < FOURS; j++) {
        let query = workgroup.x * TILE + (i * DOWN + down) * 4u + e;
        scores[score_place(query, first_column, params.room) / 4u + j * ACROSS + across] = sums[i * 4u + e][j];
      }
    }
  }
}
