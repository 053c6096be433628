// Finds the largest similarity, by their codes, of each token of some queries with the tokens of each document, on cooperative matrices. No
// score goes to memory. A subgroup goes over its sums, pieces of 16 x 16: an invocation has eight of each, two queries by four rows, or of 64
// lanes four. Four neighbouring lanes have the same queries.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]

// The largest similarity of four lanes.
fn of_four(most: f32) -> f32 {
  let pair = max(most, subgroupShuffleXor(most, 1u));
  return max(pair, subgroupShuffleXor(pair, 2u));
}

// The largest similarities of those rows of a part that a lane has.
fn most_within(part: Part, first_row: u32, lane: u32, similarities: ptr<function, array<vec4<f32>, PIECES>>) -> f32 {
  var most = vec4(NOWHERE);
  // unroll
  for (var j = 0u; j < PIECES; j++) {
    // unroll
    for (var r = 0u; r < 4u; r++) {
      let row = first_row + j * PIECE + row_of_sum(lane, r);
      most[r] = max(most[r], select(NOWHERE, (*similarities)[j][r], row >= part.start && row < part.end));
    }
  }
  return max(max(most.x, most.y), max(most.z, most.w));
}

@compute @workgroup_size(WORKGROUP)
fn maxsim_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup_size: u32,
) {
  let entry = params.first_entry + workgroup.y;
  let first_slot = blocks[entry].x * TILE;
  let block = blocks[entry].x - params.first_block;
  // Loaded before the products, so that nothing waits for memory after them.
  let own_row = block * TILE + own_row_of(index);
  let own_query = workgroup.x * HEIGHT + own_query_of(index);
  let own_row_terms = row_terms[own_row];
  let own_factor = query_terms[own_query].x;
  let first = first_part(entry);
  var sums: Sums;
  multiply_tile(granules_of(own_query), granules_of(own_row), index, &sums);
  if (is_first_of_row(index)) {
    let place = place_of_row(index);
    shared_terms[place / 4u][place % 4u] = own_row_terms.x;
    shared_terms[BIASES + place / 4u][place % 4u] = own_row_terms.w;
  }
  if (is_first_of_query(index)) { shared_terms[QUERIES + own_query_of(index)].x = own_factor; }
  workgroupBarrier();
  let lane = index % LANES;
  let first_row = part_row(index);
  var scale: array<vec4<f32>, PIECES>;
  var bias: array<vec4<f32>, PIECES>;
  // unroll
  for (var j = 0u; j < PIECES; j++) {
    scale[j] = shared_terms[first_row / 4u + j * PIECE / 4u + lane % 4u];
    bias[j] = shared_terms[BIASES + first_row / 4u + j * PIECE / 4u + lane % 4u];
  }
  let first_query = part_query(index) + lane / 4u;
  var factors: array<vec2<f32>, PIECES_DOWN>;
  // unroll
  for (var i = 0u; i < PIECES_DOWN; i++) {
    factors[i].x = shared_terms[QUERIES + first_query + i * PIECE].x;
    factors[i].y = shared_terms[QUERIES + first_query + i * PIECE + HIGH_QUERY].x;
  }
  // Sums may pass through the memory of these terms.
  workgroupBarrier();
  // The first part with a row of this subgroup.
  var own_part = first;
  while (is_left(own_part) && own_part.end <= first_row) { own_part = next_part(own_part, first_slot); }
  let own_piece = index / LANES * 64u;
  // unroll
  for (var i = 0u; i < PIECES_DOWN; i++) {
    var low: array<vec4<f32>, PIECES>;
    var high: array<vec4<f32>, PIECES>;
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      // unroll
      for (var a = 0u; a < PARTS; a++) {
        // unroll
        for (var b = 0u; b < PARTS; b++) {
          let at = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
          store_sums(sums[i * PARTS + a][j * PARTS + b], at);
        }
      }
      exchange();
      low[j] = fma(vec4(factors[i].x), scale[j] * low_sums(sums[i * PARTS][j * PARTS], own_piece + lane), bias[j]);
      if (HALVES == 2u) {
        high[j] = fma(vec4(factors[i].y), scale[j] * high_sums(sums[i * PARTS][j * PARTS], own_piece + HIGH + lane), bias[j]);
      }
      exchange();
    }
    let query = workgroup.x * HEIGHT + first_query + i * PIECE;
    for (var part = own_part; is_left(part) && part.start < first_row + PART_ROWS; part = next_part(part, first_slot)) {
      if (!is_here(part)) { continue; }
      let most_low = of_four(most_within(part, first_row, lane, &low));
      // Nothing is found on subgroups of another size than the form is for: then the self-test fails, and searches do without matrices.
      if (lane % 4u == 0u && subgroup_size == LANES) { note_nearest(part, query, key_of(most_low)); }
      if (HALVES == 2u) {
        let most_high = of_four(most_within(part, first_row, lane, &high));
        if (lane % 4u == 0u && subgroup_size == LANES) { note_nearest(part, query + HIGH_QUERY, key_of(most_high)); }
      }
    }
  }
}
