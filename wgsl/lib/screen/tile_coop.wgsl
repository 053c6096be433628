// The dot products of a tile of quantised queries and rows on cooperative matrices. A workgroup of four subgroups, of 32 lanes or of
// 64, computes a tile of 128 x 128, each subgroup 64 x 64 of it. Slices of DEPTH dimensions lie in workgroup memory while the next ones are
// loaded. Sums of products stay below 2^24, so f32 holds them exactly in whatever order the hardware adds.
const TILE = BLOCK_ROWS; // queries, and rows
const PART_QUERIES = 64u; // of a subgroup
const PART_ROWS = 64u;
const GRANULES = DEPTH / 16u;
const PITCH = GRANULES * GRANULE_VECTORS * 5u / 4u; // vectors from row to row; more than needed avoids bank conflicts
const MATRICES = PART_ROWS / SIDE;
const LANES = PART_QUERIES * PART_ROWS / REGISTERS; // of a subgroup
const LOADERS = WORKGROUP / TILE; // invocations that load a vector's granules
const LOADS = GRANULES / LOADERS; // granules that each of them loads
const NOTHING = vec4(0x80808080u); // of a granule
alias Sums = array<array<Sum, MATRICES>, MATRICES>;

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // quantised, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantised, blocks of TILE rows

var<workgroup> query_slice: array<SliceVector, TILE * PITCH>;
var<workgroup> row_slice: array<SliceVector, TILE * PITCH>;

// The first query, or row, of a subgroup's part.
fn part_query(index: u32) -> u32 { return index / (2u * LANES) * PART_QUERIES; }
fn part_row(index: u32) -> u32 { return index / LANES % 2u * PART_ROWS; }

// The number of the query, and of the row, that an invocation loads.
fn vector_of(index: u32) -> u32 { return select(index % TILE, index, LOADERS == 1u); }

// Whether no invocation before this one loads the same vectors.
fn is_first(index: u32) -> bool { return LOADERS == 1u || index < TILE; }

// Where the granules of a block's vector start.
fn first_of(block: u32, vector: u32) -> u32 { return block * params.granules * TILE + vector; }

// Adds products to the sums of each subgroup. An invocation loads granules of one query and of one row, `vector_of`: `first_query` and
// `first_row` are where their granules start.
fn multiply_tile(first_query: u32, first_row: u32, index: u32, sums: ptr<function, Sums>) {
  let turn = turn_of(index);
  let vector = vector_of(index);
  let loader = select(index / TILE, 0u, LOADERS == 1u);
  let own_query = first_query + loader * TILE;
  let own_row = first_row + loader * TILE;
  var next_query: array<vec4<u32>, LOADS>;
  var next_row: array<vec4<u32>, LOADS>;
  // unroll
  for (var g = 0u; g < LOADS; g++) {
    next_query[g] = queries[own_query + g * LOADERS * TILE];
    next_row[g] = rows[own_row + g * LOADERS * TILE];
  }
  for (var start = 0u; start < params.granules; start += GRANULES) {
    // unroll
    for (var g = 0u; g < LOADS; g++) {
      // unroll
      for (var w = 0u; w < GRANULE_VECTORS; w++) {
        let place = vector * PITCH + (g * LOADERS + loader) * GRANULE_VECTORS + place_in_granule(w, turn);
        // The last slice may be half full: one side of nothing leaves the sums as they are.
        let is_there = GRANULES == 2u || start + g * LOADERS + loader < params.granules;
        query_slice[place] = slice_vector(select(NOTHING, next_query[g], is_there), w, turn);
        row_slice[place] = slice_vector(next_row[g], w, turn);
      }
    }
    workgroupBarrier();
    let ahead = start + GRANULES;
    if (ahead < params.granules) {
      // unroll
      for (var g = 0u; g < LOADS; g++) {
        next_query[g] = queries[own_query + (ahead + g * LOADERS) * TILE];
        next_row[g] = rows[own_row + (ahead + g * LOADERS) * TILE];
      }
    }
    // unroll
    for (var d = 0u; d < GRANULES * GRANULE_VECTORS; d += STEP) {
      var right: array<Right, MATRICES>;
      // unroll
      for (var j = 0u; j < MATRICES; j++) {
        right[j] = coopLoad<Right>(&row_slice[(part_row(index) + j * SIDE) * PITCH + d], PITCH);
      }
      // unroll
      for (var i = 0u; i < MATRICES; i++) {
        let left = coopLoadT<Left>(&query_slice[(part_query(index) + i * SIDE) * PITCH + d], PITCH);
        // unroll
        for (var j = 0u; j < MATRICES; j++) {
          (*sums)[i][j] = coopMultiplyAdd(left, right[j], (*sums)[i][j]);
        }
      }
    }
    workgroupBarrier();
  }
}
