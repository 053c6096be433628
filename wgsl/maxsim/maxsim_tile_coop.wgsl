// Finds the largest similarity, by their codes, of each token of some queries with the tokens of each document, on cooperative matrices. No
// score goes to memory. A subgroup goes over its sums, pieces of 16 x 16: an invocation has eight of each, two queries by four rows, or of 64
// lanes four. Four neighbouring lanes have the same queries.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]

// The largest similarities of four lanes with the same queries, of four pieces each: lane L of the four has those of piece L.
fn of_four(own: array<f32, 4>, lane: u32) -> f32 {
  let is_odd = (lane & 1u) == 1u;
  let low = max(select(own[0], own[1], is_odd), subgroupShuffleXor(select(own[1], own[0], is_odd), 1u));
  let high = max(select(own[2], own[3], is_odd), subgroupShuffleXor(select(own[3], own[2], is_odd), 1u));
  let is_high = (lane & 2u) == 2u;
  return max(select(low, high, is_high), subgroupShuffleXor(select(high, low, is_high), 2u));
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
  // Behind the end may lie rows that were refused.
  let own_row_terms = select(vec4(0.0), row_terms[own_row], own_row < params.rows);
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
  let own_piece = index / LANES * 64u;
  var low: array<array<vec4<f32>, PIECES>, PIECES_DOWN>;
  var high: array<array<vec4<f32>, PIECES>, PIECES_DOWN>;
  // unroll
  for (var i = 0u; i < PIECES_DOWN; i++) {
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      // unroll
      for (var a = 0u; a < PARTS; a++) {
        // unroll
        for (var b = 0u; b < PARTS; b++) {
          store_sums(sums[i * PARTS + a][j * PARTS + b], own_piece + a * SIDE * 4u + b * (SIDE / 4u));
        }
      }
      exchange();
      low[i][j] = scale[j] * low_sums(sums[i * PARTS][j * PARTS], own_piece + lane);
      if (HALVES == 2u) { high[i][j] = scale[j] * high_sums(sums[i * PARTS][j * PARTS], own_piece + HIGH + lane); }
      exchange();
    }
  }
  let query = workgroup.x * HEIGHT + first_query + lane % 4u * PIECE;
  // Nothing is found on subgroups of another size than the form is for: then the self-test fails, and searches do without matrices.
  let notes = lane % 4u < PIECES_DOWN && subgroup_size == LANES;
  for (var part = part_of(places, first_row); part.start < first_row + PART_ROWS; part = next_part(places, part)) {
    if (!is_here(part)) { continue; }
    var most_low: array<vec4<f32>, 4>;
    var most_high: array<vec4<f32>, 4>;
    // unroll
    for (var i = 0u; i < 4u; i++) {
      most_low[i] = vec4(NOWHERE);
      most_high[i] = vec4(NOWHERE);
    }
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      let piece = first_row + j * PIECE;
      if (part.start < piece + PIECE && part.end > piece) {
        // Rows of other parts are far by their bias: a choice for each sum would take twice as long.
        var own_bias: vec4<f32>;
        // unroll
        for (var r = 0u; r < 4u; r++) {
          let row = piece + row_of_sum(lane, r);
          own_bias[r] = select(NOWHERE, bias[j][r], row >= part.start && row < part.end);
        }
        // unroll
        for (var i = 0u; i < PIECES_DOWN; i++) {
          most_low[i] = max(most_low[i], fma(vec4(factors[i].x), low[i][j], own_bias));
          if (HALVES == 2u) { most_high[i] = max(most_high[i], fma(vec4(factors[i].y), high[i][j], own_bias)); }
        }
      }
    }
    var own_low: array<f32, 4>;
    var own_high: array<f32, 4>;
    // unroll
    for (var i = 0u; i < 4u; i++) {
      own_low[i] = max(max(most_low[i].x, most_low[i].y), max(most_low[i].z, most_low[i].w));
      own_high[i] = max(max(most_high[i].x, most_high[i].y), max(most_high[i].z, most_high[i].w));
    }
    let found_low = of_four(own_low, lane);
    if (notes) { note_nearest(part, query, key_of(found_low)); }
    if (HALVES == 2u) {
      let found_high = of_four(own_high, lane);
      if (notes) { note_nearest(part, query + HIGH_QUERY, key_of(found_high)); }
    }
  }
}
