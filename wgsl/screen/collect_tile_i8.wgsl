// Scores many quantised queries by four-way integer products and collects the rows that can still be among the nearest, in one
// kernel: no score goes to memory.
var<workgroup> longest_bits: array<atomic<u32>, 2>; // of the rows' lengths and residuals, which are not negative
var<workgroup> largest_key: atomic<u32>; // of the rows' thresholds, for pairs

@compute @workgroup_size(WORKGROUP)
fn collect_tile_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = block_of(workgroup.y);
  if (!has_usable(block)) { return; }
  // The barriers of the tile separate this from the maxima below.
  if (index < 2u) { atomicStore(&longest_bits[index], 0u); }
  if (PAIRS == 1u && index == 0u) { atomicStore(&largest_key, 0u); }
  var sums: Sums;
  multiply_tile(workgroup.x, block, index, &sums);
  let first_query = workgroup.x * TILE + index / ACROSS * 4u;
  // The slices are free now. One invocation a row finds what describes it in the coarse test.
  if (index < TILE) {
    let row = block * TILE + index;
    let coarse = coarse_row(row, row_terms[row]);
    row_slice[0][index / 4u][index % 4u] = bitcast<u32>(coarse.x);
    row_slice[1][index / 4u][index % 4u] = bitcast<u32>(coarse.y);
    atomicMax(&longest_bits[0], bitcast<u32>(coarse.z));
    atomicMax(&longest_bits[1], bitcast<u32>(coarse.w));
    if (PAIRS == 1u && is_usable(row)) { atomicMax(&largest_key, threshold_of(params.first_slot + row)); }
  }
  workgroupBarrier();
  let longest = vec2(bitcast<f32>(atomicLoad(&longest_bits[0])), bitcast<f32>(atomicLoad(&longest_bits[1])));
  // A copy, because an index that is not a constant would take the sums out of the registers in which they are multiplied.
  var totals = sums;
  var passing: array<u32, FOURS>; // a bit for each query of this invocation and each of four rows
  // unroll on hardware
  for (var i = 0u; i < 2u; i++) {
    // unroll on hardware
    for (var e = 0u; e < 4u; e++) {
      let query = first_query + i * DOWN * 4u + e;
      var threshold = threshold_of(list_of(query));
      // Whatever either row of a pair may take passes.
      if (PAIRS == 1u) { threshold = max(threshold, atomicLoad(&largest_key)); }
      let limit = limit_of(coarse_query(query, query_terms[query], threshold), longest);
      // unroll on hardware
      for (var j = 0u; j < FOURS; j++) {
        let four = j * ACROSS + index % ACROSS;
        let scale = bitcast<vec4<f32>>(row_slice[0][four]);
        let bias = bitcast<vec4<f32>>(row_slice[1][four]);
        let score = vec4<f32>(totals[i * 4u + e][j]);
        passing[j] |= passing_rows(limit.x, nearness(limit.y, score, scale, bias)) << ((i * 4u + e) * 4u);
      }
    }
  }
  // Few pass. Where each score had a copy of what follows, an M1 had not enough registers.
  // unroll on hardware
  for (var j = 0u; j < FOURS; j++) {
    while (passing[j] != 0u) {
      let bit = firstTrailingBit(passing[j]);
      passing[j] &= passing[j] - 1u;
      var four = vec4(0i);
      // unroll on hardware
      for (var q = 0u; q < 8u; q++) { four = select(four, totals[q][j], q == bit / 4u); }
      let score = vec4<f32>(four);
      let query = first_query + bit / 16u * DOWN * 4u + bit / 4u % 4u;
      keep_row(query, block * TILE + (j * ACROSS + index % ACROSS) * 4u + bit % 4u, score[bit % 4u]);
    }
  }
}
