// The dot products of a tile of quantised queries and rows on cooperative matrices. A workgroup of four subgroups, of 32 lanes or of
// 64, computes a tile of HEIGHT queries by 128 rows: each subgroup 64 x 64 of 128 queries, or all of fewer queries by 32 rows. Slices of
// DEPTH dimensions lie in workgroup memory while the next ones are loaded. Sums of products stay below 2^24, so f32 holds them exactly
// in whatever order the hardware adds. Where OF_BITS is 1, a granule has 128 bits, which become bytes of 0 and 1 on their way to workgroup memory:
// products then count the bits that both vectors have.
const TILE = BLOCK_ROWS; // rows
const ACROSS = 4u / (1u + HEIGHT / 128u); // subgroups side by side
const PART_QUERIES = HEIGHT * ACROSS / 4u; // of a subgroup
const PART_ROWS = TILE / ACROSS;
const GRANULES = DEPTH / 16u;
const PITCH = GRANULES * GRANULE_VECTORS * 5u / 4u; // vectors from row to row; more than needed avoids bank conflicts
const MATRICES = PART_ROWS / SIDE; // of a subgroup, across
const MATRICES_DOWN = PART_QUERIES / SIDE;
const LANES = WORKGROUP / 4u; // of a subgroup
const LOADERS = WORKGROUP / TILE; // invocations that load a row's granules
const LOADS = GRANULES / LOADERS; // granules that each of them loads
const QUERY_LOADERS = WORKGROUP / HEIGHT; // the same of a query: those beyond GRANULES load nothing
const QUERY_LOADS = (GRANULES + QUERY_LOADERS - 1u) / QUERY_LOADERS;
// Slices of a turn: low tiles load two ahead, because they multiply few queries before the next one arrives. A turn of bits has one granule.
const AHEAD = 2u / (1u + HEIGHT / 128u) * (1u - OF_BITS) + 8u / GRANULES * OF_BITS;
const TURN = AHEAD * GRANULES * (1u - OF_BITS) + OF_BITS; // granules of a turn as they are stored
const NOTHING = vec4(0x80808080u); // of a granule
alias Sums = array<array<Sum, MATRICES>, MATRICES_DOWN>;

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // quantised, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantised, blocks of TILE rows

var<workgroup> query_slice: array<SliceVector, HEIGHT * PITCH>;
var<workgroup> row_slice: array<SliceVector, TILE * PITCH>;

// Sixteen bits as a granule of codes: bytes of 0 and 1, with 128 added.
fn bytes_of(bits: u32) -> vec4<u32> {
  let fours = (vec4(bits) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u);
  // Bit i of four comes to bit 8 i.
  return ((fours * 0x00204081u) & vec4(0x01010101u)) | NOTHING;
}

// Granule `number` of the slice with number `s` in a turn. Its bits lie in one of two words.
fn granule_of_bits(stored: vec4<u32>, s: u32, number: u32) -> vec4<u32> {
  let word = s * GRANULES / 2u;
  let bits = select(stored[word], stored[word + GRANULES / 2u - 1u], number >= 2u);
  return bytes_of(bits >> (16u * (number & 1u)));
}

// The first query, or row, of a subgroup's part.
fn part_query(index: u32) -> u32 { return index / (ACROSS * LANES) * PART_QUERIES; }
fn part_row(index: u32) -> u32 { return index / LANES % ACROSS * PART_ROWS; }

// The number of the row, and of the query, that an invocation loads.
fn own_row_of(index: u32) -> u32 { return select(index % TILE, index, LOADERS == 1u); }
fn own_query_of(index: u32) -> u32 { return select(index % HEIGHT, index, QUERY_LOADERS == 1u); }

// Whether no invocation before this one loads the same row, or the same query.
fn is_first_of_row(index: u32) -> bool { return LOADERS == 1u || index < TILE; }
fn is_first_of_query(index: u32) -> bool { return QUERY_LOADERS == 1u || index < HEIGHT; }

// Adds products to the sums of each subgroup. An invocation loads granules of one query and of one row, `own_query_of` and `own_row_of`:
// `first_query` and `first_row` are where their granules start.
fn multiply_tile(first_query: u32, first_row: u32, index: u32, sums: ptr<function, Sums>) {
  let turn = turn_of(index);
  let query = own_query_of(index) * PITCH;
  let row = own_row_of(index) * PITCH;
  let query_loader = select(index / HEIGHT, 0u, QUERY_LOADERS == 1u);
  let row_loader = select(index / TILE, 0u, LOADERS == 1u);
  let own_query = first_query + query_loader * TILE;
  let own_row = first_row + row_loader * TILE;
  let loads_query = QUERY_LOADERS <= GRANULES || query_loader < GRANULES;
  // A slice is loaded while the AHEAD before it are multiplied. naga 30 takes a condition around products for one of each invocation: so
  // slices behind the last are multiplied too, with queries of nothing, which leave the sums as they are.
  var next_query: array<array<vec4<u32>, QUERY_LOADS>, AHEAD>;
  var next_row: array<array<vec4<u32>, LOADS>, AHEAD>;
  if (OF_BITS == 1u) {
    next_row[0][0] = rows[first_row];
    if (loads_query) { next_query[0][0] = queries[first_query]; }
  }
  // unroll
  for (var s = 0u; s < AHEAD; s++) {
    if (OF_BITS == 0u && s * GRANULES < params.granules) {
      // unroll
      for (var g = 0u; g < LOADS; g++) { next_row[s][g] = rows[own_row + (s * GRANULES + g * LOADERS) * TILE]; }
      if (loads_query) {
        // unroll
        for (var g = 0u; g < QUERY_LOADS; g++) { next_query[s][g] = queries[own_query + (s * GRANULES + g * QUERY_LOADERS) * TILE]; }
      }
    }
  }
  for (var first = 0u; first < params.granules; first += TURN) {
    var coming_row: vec4<u32>;
    var coming_query: vec4<u32>;
    // unroll
    for (var s = 0u; s < AHEAD; s++) {
      let start = first + s * GRANULES;
      // unroll
      for (var g = 0u; g < LOADS; g++) {
        var own = next_row[s][g];
        if (OF_BITS == 1u) { own = granule_of_bits(next_row[0][0], s, g * LOADERS + row_loader); }
        // unroll
        for (var w = 0u; w < GRANULE_VECTORS; w++) {
          let place = (g * LOADERS + row_loader) * GRANULE_VECTORS + place_in_granule(w, turn);
          row_slice[row + place] = slice_vector(own, w, turn);
        }
      }
      if (loads_query) {
        // unroll
        for (var g = 0u; g < QUERY_LOADS; g++) {
          let granule = g * QUERY_LOADERS + query_loader;
          let is_there = (AHEAD == 1u && GRANULES == 2u) || start + granule < params.granules;
          var own = select(NOTHING, next_query[s][g], is_there);
          if (OF_BITS == 1u) { own = granule_of_bits(next_query[0][0], s, granule); }
          // unroll
          for (var w = 0u; w < GRANULE_VECTORS; w++) {
            query_slice[query + granule * GRANULE_VECTORS + place_in_granule(w, turn)] = slice_vector(own, w, turn);
          }
        }
      }
      workgroupBarrier();
      if (OF_BITS == 1u && s == 0u && first + 1u < params.granules) {
        coming_row = rows[first_row + (first + 1u) * TILE];
        if (loads_query) { coming_query = queries[first_query + (first + 1u) * TILE]; }
      }
      let ahead = start + AHEAD * GRANULES;
      if (OF_BITS == 0u && ahead < params.granules) {
        // unroll
        for (var g = 0u; g < LOADS; g++) { next_row[s][g] = rows[own_row + (ahead + g * LOADERS) * TILE]; }
        if (loads_query) {
          // unroll
          for (var g = 0u; g < QUERY_LOADS; g++) { next_query[s][g] = queries[own_query + (ahead + g * QUERY_LOADERS) * TILE]; }
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
        for (var i = 0u; i < MATRICES_DOWN; i++) {
          let left = coopLoadT<Left>(&query_slice[(part_query(index) + i * SIDE) * PITCH + d], PITCH);
          // unroll
          for (var j = 0u; j < MATRICES; j++) {
            (*sums)[i][j] = coopMultiplyAdd(left, right[j], (*sums)[i][j]);
          }
        }
      }
      workgroupBarrier();
    }
    if (OF_BITS == 1u) {
      next_row[0][0] = coming_row;
      next_query[0][0] = coming_query;
    }
  }
}
