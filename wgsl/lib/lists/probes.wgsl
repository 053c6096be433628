// The lists that a query probes, and the scores of their rows. A workgroup takes a query, and an invocation a row of a page, so
// that granules of neighbouring rows are loaded together and nothing is summed across lanes.
@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // quantized, blocks of BLOCK_ROWS queries; then their terms
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantized, blocks of BLOCK_ROWS rows
@group(0) @binding(6) var<storage, read> probed: array<vec2<u32>>; // [queries, stride]: list numbers, u64, nearest first
@group(0) @binding(7) var<storage, read> tables: array<u32>; // [lists + 1]: where the tiles of a list start; then four pages a tile

const SLICE = 64u; // granules of the query in workgroup memory
const AHEAD = 8u; // granules of a row that are loaded together, while those before them are multiplied
const NOTHING = vec4(0x80808080u); // zeros, stored with 128 added
const NO_ROW = 0xffffffffu;

var<workgroup> query_slice: array<vec4<u32>, SLICE>;

// The score of an invocation's row. All invocations of a workgroup call this together, for one query.
fn score_of(query: u32, row: u32, index: u32) -> f32 {
  let first_query = granules_of(query);
  // The score of a row that is not there is not used.
  let first_row = granules_of(min(row, params.rows - 1u));
  var next: array<vec4<u32>, AHEAD>;
  // unroll
  for (var g = 0u; g < AHEAD; g++) {
    next[g] = NOTHING;
    if (g < params.granules) { next[g] = rows[first_row + g * BLOCK_ROWS]; }
  }
  var sum = 0i;
  for (var start = 0u; start < params.granules; start += SLICE) {
    let end = min(params.granules - start, SLICE);
    workgroupBarrier();
    // Flipping the highest bit subtracts 128.
    for (var g = index; g < end; g += WORKGROUP) { query_slice[g] = queries[first_query + (start + g) * BLOCK_ROWS] ^ NOTHING; }
    workgroupBarrier();
    for (var first = 0u; first < end; first += AHEAD) {
      let ahead = start + first + AHEAD;
      // unroll
      for (var g = 0u; g < AHEAD; g++) {
        let own = next[g] ^ NOTHING;
        next[g] = NOTHING;
        if (ahead + g < params.granules) { next[g] = rows[first_row + (ahead + g) * BLOCK_ROWS]; }
        let granule = query_slice[first + g];
        sum += dot4I8Packed(granule.x, own.x) + dot4I8Packed(granule.y, own.y) + dot4I8Packed(granule.z, own.z)
          + dot4I8Packed(granule.w, own.w);
      }
    }
  }
  return f32(sum);
}
