// Scores the rows of lists for the queries that probe them by four-way integer products, and collects the rows that thresholds do
// not exclude: no score goes to memory. A workgroup takes one block after the other, and an invocation two rows of it. Slices of the
// block's queries lie in workgroup memory. Workgroups with other queries of the same list run next to each other, so that memory
// sends its rows once.
const TILE = BLOCK_ROWS; // rows
const ROWS = TILE / WORKGROUP; // of an invocation: a word of a query that was loaded serves both
const SLICE = 32u; // granules of the queries in workgroup memory
const AHEAD = REGISTERS / 32u; // granules of a row that are loaded together, while those before them are multiplied
const NOTHING = vec4(0x80808080u); // zeros, stored with 128 added

@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // quantised, blocks of TILE queries; then their terms
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // quantised, blocks of TILE rows

var<workgroup> query_slice: array<array<vec4<u32>, HEIGHT>, SLICE>;
var<workgroup> sides: array<Query, HEIGHT>;

@compute @workgroup_size(WORKGROUP)
fn collect_lists(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let end = blocks[0];
  for (var number = workgroup.x; number < end; number += workgroups.x) {
    let entry = entry_of(number);
    let count = queries_of(entry);
    let own_query = blocks[entry + min(index % HEIGHT, count - 1u)];
    let first_query = granules_of(own_query);
    if (index < HEIGHT) { sides[index] = query_of(query_terms_of(own_query), value_of(threshold_of(own_query))); }
    var own_row = array<u32, ROWS>();
    var first_row = array<u32, ROWS>();
    var terms = array<vec4<f32>, ROWS>();
    var next = array<array<vec4<u32>, AHEAD>, ROWS>();
    // unroll
    for (var r = 0u; r < ROWS; r++) {
      own_row[r] = row_at(entry, index + r * WORKGROUP);
      // Another row stands for one that is not there. Its score is not used.
      let some_row = min(own_row[r], params.rows - 1u);
      first_row[r] = granules_of(some_row);
      // unroll
      for (var g = 0u; g < AHEAD; g++) {
        next[r][g] = NOTHING;
        if (g < params.granules) { next[r][g] = rows[first_row[r] + g * TILE]; }
      }
      terms[r] = row_side(row_terms[some_row]);
    }
    var sums = array<array<i32, HEIGHT>, ROWS>();
    for (var start = 0u; start < params.granules; start += SLICE) {
      workgroupBarrier();
      // unroll
      for (var s = 0u; s < SLICE; s += WORKGROUP / HEIGHT) {
        let g = s + index / HEIGHT;
        // Flipping the highest bit subtracts 128.
        if (start + g < params.granules) {
          query_slice[g][index % HEIGHT] = queries[first_query + (start + g) * TILE] ^ NOTHING;
        }
      }
      workgroupBarrier();
      let slice_end = min(params.granules - start, SLICE);
      for (var first = 0u; first < slice_end; first += AHEAD) {
        let ahead = start + first + AHEAD;
        var granules = array<array<vec4<u32>, AHEAD>, ROWS>();
        // unroll
        for (var r = 0u; r < ROWS; r++) {
          // unroll
          for (var g = 0u; g < AHEAD; g++) {
            granules[r][g] = next[r][g] ^ NOTHING;
            next[r][g] = NOTHING;
            if (ahead + g < params.granules) { next[r][g] = rows[first_row[r] + (ahead + g) * TILE]; }
          }
        }
        // unroll
        for (var g = 0u; g < AHEAD; g++) {
          // unroll
          for (var q = 0u; q < HEIGHT; q++) {
            // Behind the last granule, whatever is there is multiplied by zeros.
            let granule = query_slice[first + g][q];
            // unroll
            for (var r = 0u; r < ROWS; r++) {
              let own = granules[r][g];
              sums[r][q] += dot4I8Packed(granule.x, own.x) + dot4I8Packed(granule.y, own.y)
                + dot4I8Packed(granule.z, own.z) + dot4I8Packed(granule.w, own.w);
            }
          }
        }
      }
    }
    var totals = sums;
    // unroll on hardware
    for (var r = 0u; r < ROWS; r++) {
      let floor_x = vec4(terms[r].w - slack_of(terms[r]));
      var passing = 0u;
      // unroll on hardware
      for (var q = 0u; q < HEIGHT; q++) {
        let side = sides[q];
        let score = vec4(f32(totals[r][q]));
        let lower = lower_end(side, score, vec4(terms[r].x), vec4(terms[r].y), vec4(terms[r].z), floor_x).x;
        passing |= select(0u, 1u << q, q < count && lower <= side.two.x);
      }
      if (!is_usable(own_row[r])) { passing = 0u; }
      while (passing != 0u) {
        let place = firstTrailingBit(passing);
        passing &= passing - 1u;
        var score = 0i;
        // unroll on hardware
        for (var q = 0u; q < HEIGHT; q++) { score = select(score, totals[r][q], q == place); }
        keep_row(blocks[entry + place], own_row[r], f32(score));
      }
    }
    // The next block's sides come after all have used these.
    workgroupBarrier();
  }
}
