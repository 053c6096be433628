// Scores of few quantised queries against quantised rows, and the best intervals of each block, from which `pick` takes a threshold.
// An invocation takes two rows, so that granules of neighbouring rows are loaded together, nothing is summed across lanes, and a
// word of a query that was loaded from workgroup memory serves two products. The next slice of the rows is loaded during the
// products of this one.
// Workgroups that read the same rows for other queries run next to each other, so that memory sends these rows once. A query is
// the sum of PLANES integer vectors, the second in steps of `fraction`, which makes its residual negligible. Slices of the
// queries lie in workgroup memory.
const TILE = BLOCK_ROWS; // rows
const SLICE = REGISTERS / 32u; // granules of a vector in a slice

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // [PLANES] quantised, blocks of TILE queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantised, blocks of TILE rows
@group(0) @binding(3) var<storage, read_write> scores: array<f32>; // [blocks, room, BLOCK_ROWS]
@group(0) @binding(4) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(5) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(6) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(7) var<storage, read_write> best: array<vec2<u32>>; // [queries, blocks]: smallest lower and upper key

override QUERIES: u32 = 1u; // queries at a time: 1, 2, 4 or 8
override PLANES: u32 = 1u;

const ROWS = TILE / WORKGROUP; // of an invocation

var<workgroup> query_slice: array<array<array<vec4<u32>, QUERIES_AT_ONCE>, 2>, SLICE>;

// The smallest lower and upper keys of each invocation's rows, by query, and those of all.
const ENDS = 2u * QUERIES_AT_ONCE;
const SHARE = WORKGROUP / ENDS; // invocations that reduce one kind of end
const PITCH = WORKGROUP + SHARE; // avoids bank conflicts
var<workgroup> ends: array<array<u32, PITCH>, ENDS>;
var<workgroup> smallest: array<atomic<u32>, ENDS>;

// Granule number `number` of a row whose first lies at `first`; beyond the last, zeros.
fn granule_of(first: u32, number: u32) -> vec4<u32> {
  if (number >= params.granules) { return vec4(0u); }
  return codes_of(rows[first + number * TILE]);
}

@compute @workgroup_size(WORKGROUP)
fn screen_scan_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = params.block_first + workgroup.y * params.block_step;
  let first_row = block * params.granules * TILE + index;
  let first_query = workgroup.x * QUERIES;
  let query = first_query + index;
  let best_place = query * params.blocks + (params.column_first >> BLOCK_SHIFT) + workgroup.y;
  if (!has_usable(block)) {
    // Nobody looks at scores of rows that may not be found.
    if (index < QUERIES && query < params.queries) { best[best_place] = vec2(ABSENT); }
    return;
  }
  if (index < ENDS) { atomicStore(&smallest[index], ABSENT); }
  // Loaded before the products, so that nothing waits for memory after them.
  var terms: array<vec4<f32>, ROWS>;
  var is_there: array<bool, ROWS>;
  // unroll
  for (var r = 0u; r < ROWS; r++) {
    let row = block * TILE + r * WORKGROUP + index;
    is_there[r] = is_usable(row);
    // Those of bits are counted below: reading them would take an eighth of the time.
    if (is_there[r] && OF_BITS == 0u) { terms[r] = row_terms[row]; }
  }
  var bits: array<u32, ROWS>;
  var sums: array<array<array<i32, QUERIES_AT_ONCE>, 2>, ROWS>;
  var ahead: array<array<vec4<u32>, SLICE>, ROWS>;
  // unroll
  for (var r = 0u; r < ROWS; r++) {
    // unroll
    for (var g = 0u; g < SLICE; g++) { ahead[r][g] = granule_of(first_row + r * WORKGROUP, g); }
  }
  for (var start = 0u; start < params.granules; start += SLICE) {
    var rows_slice = array<array<vec4<u32>, SLICE>, ROWS>();
    // unroll
    for (var r = 0u; r < ROWS; r++) {
      // unroll
      for (var g = 0u; g < SLICE; g++) {
        rows_slice[r][g] = ahead[r][g];
        ahead[r][g] = granule_of(first_row + r * WORKGROUP, start + SLICE + g);
      }
    }
    workgroupBarrier();
    for (var i = index; i < SLICE * PLANES * QUERIES; i += WORKGROUP) {
      // The divisors are override constants, so the driver sees powers of two.
      let query = i % QUERIES;
      let plane = (i / QUERIES) % PLANES;
      let g = i / (QUERIES * PLANES);
      var granule = vec4(0u);
      if (start + g < params.granules) {
        granule = codes_of(queries[plane * params.query_plane + (start + g) * TILE + first_query + query]);
      }
      query_slice[g][plane][query] = granule;
    }
    workgroupBarrier();
    // unroll
    for (var g = 0u; g < SLICE; g++) {
      if (OF_BITS == 1u) {
        // unroll
        for (var r = 0u; r < ROWS; r++) {
          let counts = countOneBits(rows_slice[r][g]);
          bits[r] += counts.x + counts.y + counts.z + counts.w;
        }
      }
      // unroll
      for (var p = 0u; p < 2u; p++) {
        if (p < PLANES) {
          // unroll
          for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
            if (q < QUERIES) {
              let granule = query_slice[g][p][q];
              // unroll
              for (var r = 0u; r < ROWS; r++) {
                let four = rows_slice[r][g];
                sums[r][p][q] += product(granule.x, four.x) + product(granule.y, four.y)
                  + product(granule.z, four.z) + product(granule.w, four.w);
              }
            }
          }
        }
      }
    }
  }
  if (OF_BITS == 1u) {
    // unroll
    for (var r = 0u; r < ROWS; r++) { terms[r] = vec4(1.0, 0.0, 0.0, f32(bits[r])); }
  }
  let column = params.column_first + workgroup.y * TILE + index;
  // unroll
  for (var q = 0u; q < QUERIES_AT_ONCE; q++) {
    if (q < QUERIES) {
      let query = first_query + q;
      var least = vec2(ABSENT);
      if (query < params.queries) {
        let side = query_of(query_terms[query], 0.0);
        // unroll
        for (var r = 0u; r < ROWS; r++) {
          var score = f32(sums[r][0][q]);
          // Both sums are exact as f32, and so is the product.
          if (PLANES == 2u) { score = fma(f32(sums[r][1][q]), params.fraction, score); }
          scores[score_place(query, column + r * WORKGROUP, params.room)] = score;
          if (is_there[r]) { least = min(least, keys_of(side, score, row_side(terms[r]))); }
        }
      }
      ends[2u * q][index] = least.x;
      ends[2u * q + 1u][index] = least.y;
    }
  }
  workgroupBarrier();
  let kind = index / SHARE;
  if (kind < 2u * QUERIES) {
    var least = ABSENT;
    for (var i = index % SHARE; i < WORKGROUP; i += SHARE) { least = min(least, ends[kind][i]); }
    atomicMin(&smallest[kind], least);
  }
  workgroupBarrier();
  if (index < QUERIES && query < params.queries) {
    best[best_place] = vec2(atomicLoad(&smallest[2u * index]), atomicLoad(&smallest[2u * index + 1u]));
  }
}
