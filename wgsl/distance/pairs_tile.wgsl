// Distances of many queries to many rows. A workgroup computes a tile of 128 x 128, each invocation 8 x 16 or 8 x 8 of it
// in registers. Slices of 8 dimensions of both operands lie transposed in workgroup memory while the next slices are loaded. L2 adds up
// squared differences, so that near vectors lose nothing to cancellation; other metrics add up products.
//
// Neighbouring invocations hold neighbouring rows, so that a query's distances are written in whole sectors of memory, whatever
// their stride. Loops over registers are unrolled, or the registers would become memory.
const TILE = 128u; // queries, and rows
const DEPTH = 8u; // dimensions of a slice
const DOWN = 16u; // invocations along queries
const ACROSS = WORKGROUP / DOWN; // invocations along rows
const FOURS = REGISTERS / 8u / 4u; // vectors of four rows of an invocation, which has 8 queries
const PITCH = TILE / 4u + 1u; // one vector more than needed avoids bank conflicts
const SLICE = DEPTH / 4u; // vectors of a row in a slice
const LOADS = TILE * SLICE / WORKGROUP; // vectors of each operand that an invocation loads
const LOAD_STEP = TILE / LOADS;

@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [queries, query_pitch]
@group(0) @binding(2) var<storage, read> rows: array<vec4<f32>>; // [rows, row_pitch]
@group(0) @binding(3) var<storage, read> query_norms: array<vec2<f32>>; // [queries]: squared, inverse; read for cosine alone
@group(0) @binding(4) var<storage, read> row_norms: array<vec2<f32>>; // [rows]
@group(0) @binding(5) var<storage, read_write> distances: array<f32>; // [queries, distance_stride]

// One array per dimension: indices within it do not depend on the dimension, so their bounds are checked once and not in
// the innermost loop.
var<workgroup> query_slice: array<array<vec4<f32>, PITCH>, DEPTH>;
var<workgroup> row_slice: array<array<vec4<f32>, PITCH>, DEPTH>;

@compute @workgroup_size(WORKGROUP)
fn pairs_tile(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let across = index % ACROSS;
  let down = index / ACROSS;
  let first_query = params.first_query + workgroup.x * TILE;
  let first_row = params.first_row + workgroup.y * TILE;
  let load_vector = index % SLICE;
  let load_query = index / SLICE;
  // Row r of the tile is element r / ACROSS % 4 of vector r / ACROSS / 4 * ACROSS + r % ACROSS. Sixteen invocations load four rows of each
  // of the four elements: stores to different banks.
  let slice_element = load_query / 4u % 4u;
  let sixteen = load_query / 16u;
  let slice_first = sixteen / (ACROSS / 4u) * ACROSS; // of the vectors of a group of 4 * ACROSS rows
  let slice_place = sixteen % (ACROSS / 4u) * 4u + load_query % 4u;
  let slice_vector = slice_first + slice_place;
  let load_row = slice_first * 4u + slice_element * ACROSS + slice_place;
  var query_place: array<u32, LOADS>;
  var row_place: array<u32, LOADS>;
  var next_query: array<vec4<f32>, LOADS>;
  var next_row: array<vec4<f32>, LOADS>;
  // unroll
  for (var i = 0u; i < LOADS; i++) {
    // Beyond the last vector the last one is loaded again, and its distances are not written.
    query_place[i] = min(first_query + load_query + i * LOAD_STEP, params.queries - 1u) * params.query_pitch;
    row_place[i] = min(first_row + load_row + i * LOAD_STEP, params.rows - 1u) * params.row_pitch;
    // A vector may end within the first slice.
    if (load_vector < params.vectors) {
      next_query[i] = queries[query_place[i] + load_vector];
      next_row[i] = rows[row_place[i] + load_vector];
    }
  }
  var sums: array<array<vec4<f32>, FOURS>, 8>;
  for (var start = 0u; start < params.vectors; start += SLICE) {
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      let column = load_query + i * LOAD_STEP;
      // unroll
      for (var j = 0u; j < 4u; j++) {
        query_slice[load_vector * 4u + j][column / 4u][column % 4u] = next_query[i][j];
        row_slice[load_vector * 4u + j][slice_vector + i * (LOAD_STEP / 4u)][slice_element] = next_row[i][j];
      }
    }
    workgroupBarrier();
    let ahead = start + SLICE + load_vector;
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      if (ahead < params.vectors) {
        next_query[i] = queries[query_place[i] + ahead];
        next_row[i] = rows[row_place[i] + ahead];
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
            if (METRIC <= PAIRS_DIFFERENCES) {
              let difference = vec4(query[e]) - four[j];
              sums[i * 4u + e][j] = fma(difference, difference, sums[i * 4u + e][j]);
            } else {
              sums[i * 4u + e][j] = fma(vec4(query[e]), four[j], sums[i * 4u + e][j]);
            }
          }
        }
      }
    }
    workgroupBarrier();
  }
  // unroll
  for (var i = 0u; i < 2u; i++) {
    // unroll
    for (var e = 0u; e < 4u; e++) {
      let query = first_query + (i * DOWN + down) * 4u + e;
      var query_inverse = 1.0;
      if (METRIC == PAIRS_DIVIDED) { query_inverse = query_norms[query].y; }
      // unroll
      for (var j = 0u; j < FOURS; j++) {
        // unroll
        for (var r = 0u; r < 4u; r++) {
          let row = first_row + (j * 4u + r) * ACROSS + across;
          var scale = query_inverse;
          if (METRIC == PAIRS_DIVIDED) { scale *= row_norms[row].y; }
          if (query < params.queries && row < params.rows) {
            distances[query * params.distance_stride + row] = pair_value(sums[i * 4u + e][j][r], scale);
          }
        }
      }
    }
  }
}
