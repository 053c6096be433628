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

@compute @workgroup_size(WORKGROUP)
fn maxsim_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup_size: u32,
) {
  let places = blocks[params.first_entry + workgroup.y];
  let block = places.number - params.first_block;
  // Loaded before the products, so that nothing waits for memory after them.
  let own_row = block * TILE + own_row_of(index);
  let own_query = workgroup.x * HEIGHT + own_query_of(index);
  let own_row_terms = row_terms[own_row];
  let own_factor = query_terms[own_query].x;
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
  let first_part = part_of(places, first_row);
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
    for (var part = first_part; part.start < first_row + PART_ROWS; part = next_part(places, part)) {
      if (!is_here(part)) { continue; }
      var most_low = vec4(NOWHERE);
      var most_high = vec4(NOWHERE);
      // unroll
      for (var j = 0u; j < PIECES; j++) {
        let piece = first_row + j * PIECE;
        if (part.start <= piece && part.end >= piece + PIECE) {
          most_low = max(most_low, low[j]);
          if (HALVES == 2u) { most_high = max(most_high, high[j]); }
        } else if (part.start < piece + PIECE && part.end > piece) {
          // unroll
          for (var r = 0u; r < 4u; r++) {
            let row = piece + row_of_sum(lane, r);
            let is_inside = row >= part.start && row < part.end;
            most_low[r] = max(most_low[r], select(NOWHERE, low[j][r], is_inside));
            if (HALVES == 2u) { most_high[r] = max(most_high[r], select(NOWHERE, high[j][r], is_inside)); }
          }
        }
      }
      let found_low = of_four(max(max(most_low.x, most_low.y), max(most_low.z, most_low.w)));
      // Nothing is found on subgroups of another size than the form is for: then the self-test fails, and searches do without matrices.
      if (lane % 4u == 0u && subgroup_size == LANES) { note_nearest(part, query, key_of(found_low)); }
      if (HALVES == 2u) {
        let found_high = of_four(max(max(most_high.x, most_high.y), max(most_high.z, most_high.w)));
        if (lane % 4u == 0u && subgroup_size == LANES) { note_nearest(part, query + HIGH_QUERY, key_of(found_high)); }
      }
    }
  }
}
