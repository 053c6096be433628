// Distances of many queries to many rows on cooperative matrices: products of f16, sums in f32. A workgroup of four subgroups,
// of 32 lanes or of 64, computes a tile of 128 x 128, each subgroup 64 x 64 of it. Slices of 32 dimensions lie in workgroup memory while the next
// ones are loaded. At the end a subgroup stores 16 x 16 sums at a time to workgroup memory, from where neighbouring invocations
// write the distances of neighbouring rows. `lib/screen/tile_coop` multiplies in the same way: what it loads it widens, and it loads
// whole blocks, so the loop over a slice is all that both have in common.
const TILE = 128u; // queries, and rows
const PART = 64u; // queries and rows of a subgroup
const DEPTH = 32u; // dimensions of a slice
const SLICE = DEPTH / 4u; // vectors of a row in a slice
const PITCH = (DEPTH + 8u) / 4u; // vectors from row to row; more than needed avoids bank conflicts
const MATRICES = PART / SIDE;
const LANES = PART * PART / REGISTERS; // of a subgroup
const LOADS = TILE * SLICE / WORKGROUP; // vectors of each operand that an invocation loads
const LOAD_STEP = TILE / LOADS;
const PIECE = 16u;
const PIECES = PART / PIECE;
const PARTS = PIECE / SIDE; // matrices across a piece
const TURNS = PIECE * PIECE / LANES; // sums of a piece that an invocation writes

@group(0) @binding(1) var<storage, read> queries: array<vec4<f16>>; // [queries, query_pitch]
@group(0) @binding(2) var<storage, read> rows: array<vec4<f16>>; // [rows, row_pitch]
@group(0) @binding(3) var<storage, read> query_factors: array<vec2<f32>>; // [queries]: from a sum to the product, to the cosine
@group(0) @binding(4) var<storage, read> row_factors: array<vec2<f32>>; // [rows]
@group(0) @binding(5) var<storage, read_write> distances: array<f32>; // [queries, distance_stride]

// 24,576 bytes of workgroup memory in all: with more, an H200 runs one workgroup at a time on a multiprocessor.
var<workgroup> query_slice: array<vec4<f16>, TILE * PITCH>;
var<workgroup> row_slice: array<vec4<f16>, TILE * PITCH>;
var<workgroup> pieces: array<vec4<f32>, 256>;

fn factor_of(factors: vec2<f32>) -> f32 {
  if (METRIC == PAIRS_PRODUCTS) { return factors.x; }
  return factors.y;
}

@compute @workgroup_size(WORKGROUP)
fn pairs_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let subgroup = index / LANES;
  let part_query = (subgroup / 2u) * PART;
  let part_row = (subgroup % 2u) * PART;
  let tile_query = params.first_query + workgroup.x * TILE;
  let tile_row = params.first_row + workgroup.y * TILE;
  let load_row = index / SLICE;
  let load_vector = index % SLICE;
  var query_place: array<u32, LOADS>;
  var row_place: array<u32, LOADS>;
  var next_query: array<vec4<f16>, LOADS>;
  var next_row: array<vec4<f16>, LOADS>;
  // unroll
  for (var i = 0u; i < LOADS; i++) {
    // Beyond the last vector the last one is loaded again, and its distances are not written.
    query_place[i] = min(tile_query + load_row + i * LOAD_STEP, params.queries - 1u) * params.query_pitch + load_vector;
    row_place[i] = min(tile_row + load_row + i * LOAD_STEP, params.rows - 1u) * params.row_pitch + load_vector;
    next_query[i] = queries[query_place[i]];
    next_row[i] = rows[row_place[i]];
  }
  var sums: array<array<Sum, MATRICES>, MATRICES>;
  // Vectors are padded to whole slices.
  for (var start = 0u; start < params.vectors; start += SLICE) {
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      query_slice[(load_row + i * LOAD_STEP) * PITCH + load_vector] = next_query[i];
      row_slice[(load_row + i * LOAD_STEP) * PITCH + load_vector] = next_row[i];
    }
    workgroupBarrier();
    let ahead = start + SLICE;
    if (ahead < params.vectors) {
      // unroll
      for (var i = 0u; i < LOADS; i++) {
        next_query[i] = queries[query_place[i] + ahead];
        next_row[i] = rows[row_place[i] + ahead];
      }
    }
    // unroll
    for (var d = 0u; d < DEPTH / 4u; d += SIDE / 4u) {
      var right: array<Right, MATRICES>;
      // unroll
      for (var j = 0u; j < MATRICES; j++) {
        right[j] = coopLoad<Right>(&row_slice[(part_row + j * SIDE) * PITCH + d], PITCH);
      }
      // unroll
      for (var i = 0u; i < MATRICES; i++) {
        let left = coopLoadT<Left>(&query_slice[(part_query + i * SIDE) * PITCH + d], PITCH);
        // unroll
        for (var j = 0u; j < MATRICES; j++) {
          sums[i][j] = coopMultiplyAdd(left, right[j], sums[i][j]);
        }
      }
    }
    workgroupBarrier();
  }
  let lane = index % LANES;
  let own_piece = subgroup * 64u;
  let first_query = tile_query + part_query + lane / PIECE;
  let first_row = tile_row + part_row + lane % PIECE;
  var row_factor: array<f32, PIECES>;
  // unroll
  for (var j = 0u; j < PIECES; j++) { row_factor[j] = factor_of(row_factors[first_row + j * PIECE]); }
  // unroll
  for (var i = 0u; i < PIECES; i++) {
    var query_factor: array<f32, TURNS>;
    // unroll
    for (var t = 0u; t < TURNS; t++) { query_factor[t] = factor_of(query_factors[first_query + i * PIECE + t * (LANES / PIECE)]); }
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      // unroll
      for (var a = 0u; a < PARTS; a++) {
        // unroll
        for (var b = 0u; b < PARTS; b++) {
          // naga 30 accepts only named values as arguments of coopStoreT.
          let sum = sums[i * PARTS + a][j * PARTS + b];
          let place = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
          coopStoreT(sum, &pieces[place], 4u);
        }
      }
      workgroupBarrier();
      let row = first_row + j * PIECE;
      // unroll
      for (var t = 0u; t < TURNS; t++) {
        let query = first_query + i * PIECE + t * (LANES / PIECE);
        let product = pieces[own_piece + t * (LANES / 4u) + lane / 4u][lane % 4u] * query_factor[t] * row_factor[j];
        if (query < params.queries && row < params.rows) {
          distances[query * params.distance_stride + row] = pair_value(product, 1.0);
        }
      }
      workgroupBarrier();
    }
  }
}
