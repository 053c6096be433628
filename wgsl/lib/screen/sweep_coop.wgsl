// Collects from the sums of a workgroup's subgroups, on cooperative matrices. A subgroup sweeps over its sums: it stores 16 x 16 of
// them at a time to workgroup memory, where each invocation reads eight back, two queries by four rows, or of 64 lanes four. An
// invocation notes the first four that pass and keeps their rows after the sweep. In the rare case that more pass, the subgroup sweeps again.
// `sums_f16` and `sums_bytes` store sums, and read them back as scores.
//
// A file in front declares the sums: `Sums`, [PART_QUERIES, PART_ROWS] of each subgroup, with `part_query` and `part_row`. The kernel
// declares `Place`, which tells where its queries and rows are, and gives their numbers.
const PIECE = 16u;
const PARTS = PIECE / SIDE; // matrices across a piece
const PIECES = PART_ROWS / PIECE; // pieces across
const PIECES_DOWN = PART_QUERIES / PIECE;
const LAST = PIECES * PIECES_DOWN - 1u;

// 24,576 bytes of workgroup memory in all: with more, an H200 runs one workgroup at a time on a multiprocessor, at 63% of the
// speed. `shared_terms` holds what invocations share: from 0 on the scales of four rows each, from BIASES on their biases, from LONGEST on
// the largest length and residual of each subgroup's rows, from QUERIES on the query's side.
var<workgroup> shared_terms: array<vec4<f32>, SHARED>;
const BIASES = 32u;
const LONGEST = 64u;
const QUERIES = 68u;

const HALVES = 64u / LANES; // of a piece: lanes of 32 read two, the low and the high one
const HIGH_QUERY = (HALVES - 1u) * PIECE / 2u;
const HIGH = (HALVES - 1u) * 32u;

struct Sweep {
  kept: vec4<u32>, // the latest first: piece << 3 | number of the sum among the eight
  scores: vec4<f32>,
  count: u32,
  has_more: bool,
}

// Tests a lane's sums of a piece. Those before `next` were kept by earlier sweeps.
fn test_sums(
  sweep: ptr<function, Sweep>,
  next: u32,
  piece: u32,
  sides: vec4<f32>,
  low: vec4<f32>,
  high: vec4<f32>,
  scale: vec4<f32>,
  bias: vec4<f32>,
) {
  let near_low = nearness(sides.xy, low, scale, bias);
  let near_high = select(vec4(-1.0), nearness(sides.zw, high, scale, bias), HALVES == 2u);
  let most = max(near_low, near_high);
  if (max(max(most.x, most.y), max(most.z, most.w)) < 0.0) { return; }
  var passing = passing_rows(near_low) | (passing_rows(near_high) << 4u);
  let first = piece << 3u;
  if (next > first) { passing &= select(0u, 0xffu << (next - first), next - first < 8u); }
  while (passing != 0u && (*sweep).count < 4u) {
    let number = firstTrailingBit(passing);
    passing &= passing - 1u;
    (*sweep).kept = vec4(first | number, (*sweep).kept.xyz);
    (*sweep).scores = vec4(select(low, high, number >= 4u)[number & 3u], (*sweep).scores.xyz);
    (*sweep).count += 1u;
  }
  (*sweep).has_more = (*sweep).has_more || passing != 0u;
}

// Shares the coarse terms of an invocation's own row.
fn share_row(index: u32, row: vec4<f32>) {
  if (is_first_of_row(index)) {
    shared_terms[index / 4u][index % 4u] = row.x;
    shared_terms[BIASES + index / 4u][index % 4u] = row.y;
  }
  let longest_here = vec2(subgroupMax(row.z), subgroupMax(row.w));
  if (index % LANES == 0u) { shared_terms[LONGEST + index / LANES] = vec4(longest_here, 0.0, 0.0); }
}

// Keeps the rows whose sums pass. The invocations have shared the terms of rows and queries. Nothing passes on subgroups of another size than
// the form is for: then the self-test fails, and searches do without matrices.
fn keep_passing(index: u32, subgroup_size: u32, place: Place, sums: ptr<function, Sums>) {
  workgroupBarrier();
  let lane = index % LANES;
  let first_row = part_row(index) + lane % 4u * 4u;
  let first_query = part_query(index) + lane / 4u;
  var scale: array<vec4<f32>, PIECES>;
  var bias: array<vec4<f32>, PIECES>;
  // unroll
  for (var j = 0u; j < PIECES; j++) {
    scale[j] = shared_terms[(first_row + j * PIECE) / 4u];
    bias[j] = shared_terms[BIASES + (first_row + j * PIECE) / 4u];
  }
  // A subgroup's rows are those of one or two subgroups' invocations.
  let longest = max(shared_terms[LONGEST + part_row(index) / LANES], shared_terms[LONGEST + (part_row(index) + PART_ROWS - 1u) / LANES]).xy;
  var sides: array<vec4<f32>, PIECES_DOWN>;
  // unroll
  for (var i = 0u; i < PIECES_DOWN; i++) {
    let low_side = shared_terms[QUERIES + first_query + i * PIECE];
    let high_side = shared_terms[QUERIES + first_query + i * PIECE + HIGH_QUERY];
    let limits = vec4(limit_of(low_side, longest), limit_of(high_side, longest));
    sides[i] = select(vec4(FAR, 0.0, FAR, 0.0), limits, subgroup_size == LANES);
  }
  workgroupBarrier();

  let own_piece = index / LANES * 64u;
  // The lanes of a subgroup exchange sums through workgroup memory. naga 30 gives `subgroupBarrier` no semantics for that memory on
  // Vulkan. Forms for bytes get them (byte_matrices.rs). Those for f16 rely on a driver that keeps the order of a subgroup's accesses
  // across it; the self-test checks that it does.
  var next = 0u;
  loop {
    var sweep = Sweep(vec4(0u), vec4(0.0), 0u, false);
    var low: vec4<f32>;
    var high: vec4<f32>;
    // unroll
    for (var n = 0u; n <= LAST; n++) {
      // unroll
      for (var a = 0u; a < PARTS; a++) {
        // unroll
        for (var b = 0u; b < PARTS; b++) {
          let at = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
          store_sums((*sums)[n / PIECES * PARTS + a][n % PIECES * PARTS + b], at);
        }
      }
      subgroupBarrier();
      let next_low = stored_sums(own_piece + lane);
      let next_high = stored_sums(own_piece + HIGH + lane);
      // The sums of one piece are tested while those of the next are on their way.
      if (n > 0u) {
        const last = (n + LAST) % (LAST + 1u);
        test_sums(&sweep, next, last, sides[last / PIECES], low, high, scale[last % PIECES], bias[last % PIECES]);
      }
      subgroupBarrier();
      low = next_low;
      high = next_high;
    }
    test_sums(&sweep, next, LAST, sides[PIECES_DOWN - 1u], low, high, scale[PIECES - 1u], bias[PIECES - 1u]);
    if (sweep.count > 0u) { next = sweep.kept.x + 1u; }
    // Step by step for all four, so that they wait for memory together.
    var kept: array<Kept, 4>;
    var places: array<u32, 4>;
    // unroll
    for (var h = 0u; h < 4u; h++) {
      if (h < sweep.count) {
        let piece = sweep.kept[h] >> 3u;
        let query = first_query + piece / PIECES * PIECE + ((sweep.kept[h] >> 2u) & 1u) * (PIECE / 2u);
        let row = first_row + piece % PIECES * PIECE + (sweep.kept[h] & 3u);
        kept[h] = test_row(query_number(place, query), row_number(place, row), sweep.scores[h]);
      }
    }
    // unroll
    for (var h = 0u; h < 4u; h++) { if (kept[h].passes) { places[h] = next_place(kept[h].query); } }
    // unroll
    for (var h = 0u; h < 4u; h++) {
      if (kept[h].passes) { put(kept[h].query, places[h], kept[h].slot, kept[h].ends.x, kept[h].ends.y); }
    }
    if (!subgroupAny(sweep.has_more)) { break; }
  }
}
