// The dot products of a strip of 32 narrowed queries and 128 rows on cooperative matrices. A workgroup of four subgroups computes
// a strip, each subgroup 32 x 32 of it. It works as the tile of 128 queries does. With so few queries it waits for memory, so
// it loads two slices ahead.
const TILE = BLOCK_ROWS; // rows
const HEIGHT = 32u; // queries
const PART_QUERIES = HEIGHT; // of a subgroup
const PART_ROWS = 32u;
const DEPTH = 32u; // dimensions of a slice
const GRANULES = DEPTH / 16u;
const AHEAD = 2u * GRANULES;
const PITCH = (DEPTH + 8u) / 4u; // vectors from row to row; more than needed avoids bank conflicts
const DOWN = PART_QUERIES / SIDE;
const ACROSS = PART_ROWS / SIDE;
const NOTHING = vec4(0x80808080u); // zeros, stored with 128 added
alias Sums = array<array<Sum, ACROSS>, DOWN>;

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // narrowed, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // narrowed, blocks of TILE rows

var<workgroup> query_slice: array<vec4<f16>, HEIGHT * PITCH>;
var<workgroup> row_slice: array<vec4<f16>, TILE * PITCH>;

// The first query, or row, of a subgroup's part.
fn part_query(index: u32) -> u32 { return 0u; }
fn part_row(index: u32) -> u32 { return index / 32u * PART_ROWS; }

// Adds products to the sums of each subgroup. `first_row` is where the granules of row number `index` start, `first_query` those of
// query number `index % HEIGHT`.
fn multiply_strip(first_query: u32, first_row: u32, index: u32, sums: ptr<function, Sums>) {
  // An invocation loads the granules of one row, and one of a query's.
  let own_query = index % HEIGHT;
  let own_granule = index / HEIGHT;
  // As in a tile, every second eight rows swap their pairs of vectors, because of bank conflicts.
  let turn = (index >> 3u) & 1u;
  var next_row: array<vec4<u32>, AHEAD>;
  // unroll
  for (var g = 0u; g < AHEAD; g++) {
    next_row[g] = NOTHING;
    if (g < params.granules) { next_row[g] = rows[first_row + g * TILE]; }
  }
  var next_query = NOTHING;
  if (own_granule < params.granules) { next_query = queries[first_query + own_granule * TILE]; }
  for (var start = 0u; start < params.granules; start += AHEAD) {
    // unroll
    for (var s = 0u; s < 2u; s++) {
      // unroll
      for (var w = 0u; w < 4u; w++) {
        // unroll
        for (var g = 0u; g < GRANULES; g++) {
          let word = select(next_row[s * GRANULES + g][w], next_row[s * GRANULES + g][w ^ 1u], turn == 1u);
          row_slice[index * PITCH + g * 4u + (w ^ turn)] = widen_integers(word);
        }
        if (own_granule / GRANULES == s) {
          let word = select(next_query[w], next_query[w ^ 1u], turn == 1u);
          query_slice[own_query * PITCH + own_granule % GRANULES * 4u + (w ^ turn)] = widen_integers(word);
        }
      }
      workgroupBarrier();
      let ahead = start + AHEAD;
      // unroll
      for (var g = 0u; g < GRANULES; g++) {
        if (ahead + s * GRANULES + g < params.granules) {
          next_row[s * GRANULES + g] = rows[first_row + (ahead + s * GRANULES + g) * TILE];
        } else {
          next_row[s * GRANULES + g] = NOTHING;
        }
      }
      if (own_granule / GRANULES == s) {
        next_query = NOTHING;
        if (ahead + own_granule < params.granules) { next_query = queries[first_query + (ahead + own_granule) * TILE]; }
      }
      // unroll
      for (var d = 0u; d < DEPTH / 4u; d += SIDE / 4u) {
        var right: array<Right, ACROSS>;
        // unroll
        for (var j = 0u; j < ACROSS; j++) {
          right[j] = coopLoad<Right>(&row_slice[(part_row(index) + j * SIDE) * PITCH + d], PITCH);
        }
        // unroll
        for (var i = 0u; i < DOWN; i++) {
          let left = coopLoadT<Left>(&query_slice[(i * SIDE) * PITCH + d], PITCH);
          // unroll
          for (var j = 0u; j < ACROSS; j++) {
            (*sums)[i][j] = coopMultiplyAdd(left, right[j], (*sums)[i][j]);
          }
        }
      }
      workgroupBarrier();
    }
  }
}
