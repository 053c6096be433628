// The scores of a tile of quantised queries and rows by four-way integer products, or by counting bits. A workgroup computes a tile of 128 x
// 128, each invocation 8 x 16 or 8 x 8 of it in registers. Slices of 32 dimensions of both operands lie transposed in workgroup memory,
// four dimensions per word, while the next ones are loaded. Sums stay below 2^24, so f32 holds them exactly.
const TILE = BLOCK_ROWS; // queries, and rows
const WORDS = 8u; // words of a vector in a slice
const DOWN = 16u; // invocations along queries
const ACROSS = WORKGROUP / DOWN; // invocations along rows
const FOURS = REGISTERS / 8u / 4u; // vectors of four rows of an invocation, which has 8 queries
const PITCH = TILE / 4u + 1u; // one vector more than needed avoids bank conflicts
const GRANULES = WORDS / 4u;
const LOADS = TILE * GRANULES / WORKGROUP; // granules of each operand that an invocation loads
// The sum of query `4 * (i * DOWN + index / ACROSS) + e` and the rows from `4 * (j * ACROSS + index % ACROSS)` on is `[4 * i + e][j]`.
alias Sums = array<array<vec4<i32>, FOURS>, 8>;

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // quantised, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantised, blocks of TILE rows

var<workgroup> query_slice: array<array<vec4<u32>, PITCH>, WORDS>;
var<workgroup> row_slice: array<array<vec4<u32>, PITCH>, WORDS>;

// Adds the products of a block of queries and a block of rows to the sums of each invocation.
fn multiply_tile(query_block: u32, row_block: u32, index: u32, sums: ptr<function, Sums>) {
  let across = index % ACROSS;
  let down = index / ACROSS;
  let first_query = query_block * params.granules * TILE + index;
  let first_row = row_block * params.granules * TILE + index;
  let first_word = index / TILE * 4u;
  let column = index % TILE;
  var next_query: array<vec4<u32>, LOADS>;
  var next_row: array<vec4<u32>, LOADS>;
  // unroll
  for (var i = 0u; i < LOADS; i++) {
    next_query[i] = queries[first_query + i * WORKGROUP];
    next_row[i] = rows[first_row + i * WORKGROUP];
  }
  for (var start = 0u; start < params.granules; start += GRANULES) {
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      // unroll
      for (var w = 0u; w < 4u; w++) {
        query_slice[first_word + i * 4u + w][column / 4u][column % 4u] = codes_of(next_query[i])[w];
        row_slice[first_word + i * 4u + w][column / 4u][column % 4u] = codes_of(next_row[i])[w];
      }
    }
    workgroupBarrier();
    let ahead = start + GRANULES;
    if (ahead < params.granules) {
      // unroll
      for (var i = 0u; i < LOADS; i++) {
        next_query[i] = queries[first_query + ahead * TILE + i * WORKGROUP];
        next_row[i] = rows[first_row + ahead * TILE + i * WORKGROUP];
      }
    }
    // unroll with many registers
    for (var w = 0u; w < WORDS; w++) {
      var four = array<vec4<u32>, FOURS>();
      // unroll
      for (var j = 0u; j < FOURS; j++) {
        four[j] = row_slice[w][j * ACROSS + across];
      }
      // unroll
      for (var i = 0u; i < 2u; i++) {
        let query = query_slice[w][i * DOWN + down];
        // unroll
        for (var e = 0u; e < 4u; e++) {
          // unroll
          for (var j = 0u; j < FOURS; j++) {
            (*sums)[i * 4u + e][j] += vec4(
              product(query[e], four[j].x),
              product(query[e], four[j].y),
              product(query[e], four[j].z),
              product(query[e], four[j].w),
            );
          }
        }
      }
    }
    workgroupBarrier();
  }
}
