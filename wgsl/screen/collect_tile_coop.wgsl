// Scores many narrowed queries on cooperative matrices and collects the rows that can still be among the nearest, in one
// kernel: no score goes to memory. A subgroup stores 16 x 16 sums at a time to workgroup memory, where each invocation reads
// eight of them back: two queries by four rows.
const PIECE = 16u;
const PIECES = PART / PIECE;

// 24,576 bytes of workgroup memory in all: with more, an H200 runs one workgroup at a time on a multiprocessor, at 63% of the
// speed.
var<workgroup> pieces: array<vec4<f32>, 256>;

@compute @workgroup_size(WORKGROUP)
fn collect_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = block_of(workgroup.y);
  var sums: Sums;
  multiply_tile(workgroup.x, block, index, &sums);
  let lane = index % 32u;
  let own_piece = index / 32u * 64u;
  let first_query = workgroup.x * TILE + part_query(index) + lane / 4u;
  let first_row = block * TILE + part_row(index) + lane % 4u * 4u;
  var scale: array<vec4<f32>, PIECES>;
  var bias: array<vec4<f32>, PIECES>;
  var longest = vec2(0.0);
  // unroll
  for (var j = 0u; j < PIECES; j++) {
    // unroll
    for (var r = 0u; r < 4u; r++) {
      let row = coarse_row(first_row + j * PIECE + r);
      scale[j][r] = row.x;
      bias[j][r] = row.y;
      longest = max(longest, row.zw);
    }
  }
  // The rows of the part lie in four neighbouring lanes.
  longest = max(longest, subgroupShuffleXor(longest, 1u));
  longest = max(longest, subgroupShuffleXor(longest, 2u));
  // unroll
  for (var i = 0u; i < PIECES; i++) {
    let query = first_query + i * PIECE;
    let low = coarse_query(query, longest);
    let high = coarse_query(query + 8u, longest);
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      // unroll
      for (var a = 0u; a < PIECE / SIDE; a++) {
        // unroll
        for (var b = 0u; b < PIECE / SIDE; b++) {
          // naga 30 accepts only named values as arguments of coopStoreT.
          let sum = sums[i * (PIECE / SIDE) + a][j * (PIECE / SIDE) + b];
          let place = own_piece + a * SIDE * (PIECE / 4u) + b * (SIDE / 4u);
          coopStoreT(sum, &pieces[place], PIECE / 4u);
        }
      }
      workgroupBarrier();
      let low_score = pieces[own_piece + lane];
      let high_score = pieces[own_piece + 32u + lane];
      workgroupBarrier();
      var passing = passing_rows(low, low_score, scale[j], bias[j]) | (passing_rows(high, high_score, scale[j], bias[j]) << 4u);
      while (passing != 0u) {
        let bit = firstTrailingBit(passing);
        passing &= passing - 1u;
        let score = select(low_score, high_score, bit >= 4u)[bit & 3u];
        keep_row(query + (bit >> 2u) * 8u, first_row + j * PIECE + (bit & 3u), score);
      }
    }
  }
}
