// Scores many narrowed queries by four-way integer products and collects the rows that can still be among the nearest, in one
// kernel: no score goes to memory.
var<workgroup> longest_bits: array<atomic<u32>, 2>; // of the rows' lengths and residuals, which are not negative

@compute @workgroup_size(WORKGROUP)
fn collect_tile_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = block_of(workgroup.y);
  // The barriers of the tile separate this from the maxima below.
  if (index < 2u) { atomicStore(&longest_bits[index], 0u); }
  var sums: Sums;
  multiply_tile(workgroup.x, block, index, &sums);
  let first_query = workgroup.x * TILE + index / ACROSS * 4u;
  let first_row = block * TILE + index % ACROSS * 4u;
  var scale: array<vec4<f32>, FOURS>;
  var bias: array<vec4<f32>, FOURS>;
  var own_longest = vec2(0.0);
  // unroll on hardware
  for (var j = 0u; j < FOURS; j++) {
    // unroll on hardware
    for (var r = 0u; r < 4u; r++) {
      let number = first_row + j * ACROSS * 4u + r;
      let row = coarse_row(number, row_terms[number]);
      scale[j][r] = row.x;
      bias[j][r] = row.y;
      own_longest = max(own_longest, row.zw);
    }
  }
  atomicMax(&longest_bits[0], bitcast<u32>(own_longest.x));
  atomicMax(&longest_bits[1], bitcast<u32>(own_longest.y));
  workgroupBarrier();
  let longest = vec2(bitcast<f32>(atomicLoad(&longest_bits[0])), bitcast<f32>(atomicLoad(&longest_bits[1])));
  // A copy, because an index that is not a constant would take the sums out of the registers in which they are multiplied.
  var totals = sums;
  // unroll on hardware
  for (var i = 0u; i < 2u; i++) {
    // unroll on hardware
    for (var e = 0u; e < 4u; e++) {
      let query = first_query + i * DOWN * 4u + e;
      let limit = limit_of(coarse_query(query, query_terms[query], thresholds[query]), longest);
      // unroll on hardware
      for (var j = 0u; j < FOURS; j++) {
        let score = vec4<f32>(totals[i * 4u + e][j]);
        var passing = passing_rows(nearness(limit, score, scale[j], bias[j]));
        while (passing != 0u) {
          let r = firstTrailingBit(passing);
          passing &= passing - 1u;
          keep_row(query, first_row + j * ACROSS * 4u + r, score[r]);
        }
      }
    }
  }
}
