// Collects from the sums of a workgroup's subgroups, on cooperative matrices. A subgroup sweeps over its sums, pieces of 16 x 16. An
// invocation tests eight of each, two queries by four rows, or of 64 lanes four. It notes the first four that pass and keeps their
// rows after the sweep. In the rare case that more pass, the subgroup sweeps again. `sums_f16` and `sums_bytes` store sums to workgroup
// memory and read them back as scores; `sums_registers` reads them in the registers that hold them.
//
// The kernel declares `Place`, which tells where its queries and rows are, and gives their numbers.
struct Sweep {
  kept: vec4<u32>, // the latest first: piece << 3 | number of the sum among the eight
  scores: vec4<f32>,
  count: u32,
  has_more: bool,
}

// A lane tests TOGETHER neighbouring pieces at a time. These are their scores, and the terms of their rows.
alias Scores = array<vec4<f32>, TOGETHER>;
alias Terms = array<vec4<f32>, TOGETHER>;

// Tests a lane's sums of some pieces: those of its low query, and those of its high one. Sums before `next` were kept by earlier sweeps.
fn test_pieces(
  sweep: ptr<function, Sweep>,
  next: u32,
  first: u32, // number of the first sum
  sides: vec4<f32>,
  low: ptr<function, Scores>,
  high: ptr<function, Scores>,
  scale: ptr<function, Terms>,
  bias: ptr<function, Terms>,
) {
  // One condition for all: the sums of most rows pass nowhere.
  var most_low = nearness(sides.y, (*low)[0], (*scale)[0], (*bias)[0]);
  var most_high = nearness(sides.w, (*high)[0], (*scale)[0], (*bias)[0]);
  // unroll
  for (var j = 1u; j < TOGETHER; j++) {
    most_low = max(most_low, nearness(sides.y, (*low)[j], (*scale)[j], (*bias)[j]));
    most_high = max(most_high, nearness(sides.w, (*high)[j], (*scale)[j], (*bias)[j]));
  }
  let passes_low = max(max(most_low.x, most_low.y), max(most_low.z, most_low.w)) >= sides.x;
  let passes_high = max(max(most_high.x, most_high.y), max(most_high.z, most_high.w)) >= sides.z;
  if (!passes_low && !(HALVES == 2u && passes_high)) { return; }
  var passing = 0u;
  // unroll
  for (var j = 0u; j < TOGETHER; j++) {
    passing |= passing_rows(sides.x, nearness(sides.y, (*low)[j], (*scale)[j], (*bias)[j])) << (j * 8u);
    if (HALVES == 2u) { passing |= passing_rows(sides.z, nearness(sides.w, (*high)[j], (*scale)[j], (*bias)[j])) << (j * 8u + 4u); }
  }
  if (next > first) { passing &= select(0u, 0xffffffffu << (next - first), next - first < 32u); }
  while (passing != 0u && (*sweep).count < 4u) {
    let number = firstTrailingBit(passing);
    passing &= passing - 1u;
    var four: vec4<f32>;
    // unroll
    for (var j = 0u; j < TOGETHER; j++) {
      if (number / 8u == j) { four = select((*low)[j], (*high)[j], (number & 4u) != 0u); }
    }
    (*sweep).kept = vec4(first + number, (*sweep).kept.xyz);
    let scores = four; // An index into a variable would keep it in memory.
    (*sweep).scores = vec4(scores[number & 3u], (*sweep).scores.xyz);
    (*sweep).count += 1u;
  }
  (*sweep).has_more = (*sweep).has_more || passing != 0u;
}

// Shares the coarse terms of an invocation's own row, and for pairs the largest threshold of a subgroup's rows.
fn share_row(index: u32, row: vec4<f32>, threshold: f32) {
  if (is_first_of_row(index)) {
    let place = place_of_row(index);
    shared_terms[place / 4u][place % 4u] = row.x;
    shared_terms[BIASES + place / 4u][place % 4u] = row.y;
  }
  let longest_here = vec2(subgroupMax(row.z), subgroupMax(row.w));
  var largest_here = 0.0;
  if (PAIRS == 1u) { largest_here = subgroupMax(threshold); }
  if (index % LANES == 0u) { shared_terms[LONGEST + index / LANES] = vec4(longest_here, largest_here, 0.0); }
}

// Keeps the rows whose sums pass. The invocations have shared the terms of rows and queries. Nothing passes on subgroups of another size than
// the form is for: then the self-test fails, and searches do without matrices.
fn keep_passing(index: u32, subgroup_size: u32, place: Place, sums: ptr<function, Sums>) {
  workgroupBarrier();
  let lane = index % LANES;
  let first_vector = part_row(index) / 4u + lane % 4u;
  let first_query = part_query(index) + lane / 4u;
  var scale: array<vec4<f32>, PIECES>;
  var bias: array<vec4<f32>, PIECES>;
  // unroll
  for (var j = 0u; j < PIECES; j++) {
    scale[j] = shared_terms[first_vector + j * PIECE / 4u];
    bias[j] = shared_terms[BIASES + first_vector + j * PIECE / 4u];
  }
  // A subgroup's rows are those of one or two subgroups' invocations.
  let of_rows = max(shared_terms[LONGEST + part_row(index) / LANES], shared_terms[LONGEST + (part_row(index) + PART_ROWS - 1u) / LANES]);
  let longest = of_rows.xy;
  var sides: array<vec4<f32>, PIECES_DOWN>;
  // unroll
  for (var i = 0u; i < PIECES_DOWN; i++) {
    var low_side = shared_terms[QUERIES + first_query + i * PIECE];
    var high_side = shared_terms[QUERIES + first_query + i * PIECE + HIGH_QUERY];
    if (PAIRS == 1u) {
      // Whatever either row of a pair may take passes.
      low_side.x -= max(of_rows.z, value_of(threshold_of(list_of(query_number(place, first_query + i * PIECE)))));
      high_side.x -= max(of_rows.z, value_of(threshold_of(list_of(query_number(place, first_query + i * PIECE + HIGH_QUERY)))));
    }
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
    // unroll
    for (var n = 0u; n < PIECES * PIECES_DOWN; n += TOGETHER) {
      var low: Scores;
      var high: Scores;
      var own_scale: Terms;
      var own_bias: Terms;
      // unroll
      for (var m = 0u; m < TOGETHER; m++) {
        // unroll
        for (var a = 0u; a < PARTS; a++) {
          // unroll
          for (var b = 0u; b < PARTS; b++) {
            let at = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
            store_sums((*sums)[n / PIECES * PARTS + a][(n + m) % PIECES * PARTS + b], at);
          }
        }
        exchange();
        low[m] = low_sums((*sums)[n / PIECES * PARTS][(n + m) % PIECES * PARTS], own_piece + lane);
        high[m] = high_sums((*sums)[n / PIECES * PARTS][(n + m) % PIECES * PARTS], own_piece + HIGH + lane);
        exchange();
        own_scale[m] = scale[(n + m) % PIECES];
        own_bias[m] = bias[(n + m) % PIECES];
      }
      test_pieces(&sweep, next, n * 8u, sides[n / PIECES], &low, &high, &own_scale, &own_bias);
    }
    if (sweep.count > 0u) { next = sweep.kept.x + 1u; }
    // Step by step for all four, so that they wait for memory together.
    var kept: array<Kept, 4>;
    var places: array<u32, 4>;
    // unroll
    for (var h = 0u; h < 4u; h++) {
      if (h < sweep.count) {
        let piece = sweep.kept[h] >> 3u;
        let query = first_query + piece / PIECES * PIECE + ((sweep.kept[h] >> 2u) & 1u) * (PIECE / 2u);
        let row = part_row(index) + piece % PIECES * PIECE + row_of_sum(lane, sweep.kept[h] & 3u);
        kept[h] = test_sum(query, row, sweep.scores[h], place);
      }
    }
    // unroll
    for (var h = 0u; h < 4u; h++) { if (takes(kept[h], kept[h].list)) { places[h] = next_place(kept[h].list); } }
    // unroll
    for (var h = 0u; h < 4u; h++) {
      if (takes(kept[h], kept[h].list)) { put(kept[h].list, places[h], kept[h].slot, kept[h].ends.x, kept[h].ends.y); }
    }
    if (PAIRS == 1u) {
      // unroll
      for (var h = 0u; h < 4u; h++) { if (takes(kept[h], kept[h].slot)) { places[h] = next_place(kept[h].slot); } }
      // unroll
      for (var h = 0u; h < 4u; h++) {
        if (takes(kept[h], kept[h].slot)) { put(kept[h].slot, places[h], kept[h].list, kept[h].ends.x, kept[h].ends.y); }
      }
    }
    if (!subgroupAny(sweep.has_more)) { break; }
  }
}
