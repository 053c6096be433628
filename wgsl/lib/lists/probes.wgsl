// The lists that a query probes, and the scores of their rows. A workgroup takes a query, and an invocation a row of a tile, so
// that granules of neighbouring rows are loaded together and nothing is summed across lanes.
@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // narrowed, blocks of BLOCK_ROWS queries; then their terms
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // narrowed, blocks of BLOCK_ROWS rows
@group(0) @binding(6) var<storage, read> probed: array<vec2<u32>>; // [queries, stride]: list numbers, u64, nearest first
@group(0) @binding(7) var<storage, read> tables: array<u32>; // [lists + 1]: where the tiles of a list start; then four pages a tile

const BESIDE = WORKGROUP / BLOCK_ROWS; // tiles at a time
const SLICE = 64u; // granules of the query in workgroup memory
const AHEAD = 8u; // granules of a row that are loaded together
const NO_ROW = 0xffffffffu;

var<workgroup> query_slice: array<vec4<u32>, SLICE>;

// The row of an invocation in the tiles from `tile` on, of a list whose tiles end at `end`.
fn own_row(tile: u32, end: u32, index: u32) -> u32 {
  let own = tile + index / BLOCK_ROWS;
  if (own >= end) { return NO_ROW; }
  let place = index % BLOCK_ROWS;
  return row_of(tables[params.tiles + own * PAGES + place / PAGE], place);
}

// The score of an invocation's row. All invocations of a workgroup call this together, for one query.
fn score_of(query: u32, row: u32, index: u32) -> f32 {
  let first_query = granules_of(query);
  // The score of a row that is not there is not used.
  let first_row = granules_of(min(row, params.rows - 1u));
  var sum = 0i;
  for (var start = 0u; start < params.granules; start += SLICE) {
    let end = min(params.granules - start, SLICE);
    workgroupBarrier();
    for (var g = index; g < end; g += WORKGROUP) {
      // Stored with 128 added: flipping the highest bit subtracts it.
      query_slice[g] = queries[first_query + (start + g) * BLOCK_ROWS] ^ vec4(0x80808080u);
    }
    workgroupBarrier();
    for (var first = 0u; first < end; first += AHEAD) {
      var granules: array<vec4<u32>, AHEAD>;
      // unroll
      for (var g = 0u; g < AHEAD; g++) {
        // Zeros.
        granules[g] = vec4(0x80808080u);
        if (first + g < end) { granules[g] = rows[first_row + (start + first + g) * BLOCK_ROWS]; }
      }
      // unroll
      for (var g = 0u; g < AHEAD; g++) {
        let row_granule = granules[g] ^ vec4(0x80808080u);
        let query_granule = query_slice[min(first + g, SLICE - 1u)];
        sum += dot4I8Packed(query_granule.x, row_granule.x) + dot4I8Packed(query_granule.y, row_granule.y)
          + dot4I8Packed(query_granule.z, row_granule.z) + dot4I8Packed(query_granule.w, row_granule.w);
      }
    }
  }
  return f32(sum);
}
