// Scores many narrowed queries on cooperative matrices and collects the rows that can still be among the nearest, in one
// kernel: no score goes to memory. A subgroup stores 16 x 16 sums at a time to workgroup memory, where each invocation reads
// eight of them back: two queries by four rows. That tells whether any of them passes. The few pieces with such sums are stored
// and read again, to find which.
const PIECE = 16u;
const PIECES = PART / PIECE;
const PARTS = PIECE / SIDE; // matrices across a piece

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
  var side: array<vec2<f32>, 2u * PIECES>;
  // unroll
  for (var q = 0u; q < 2u * PIECES; q++) { side[q] = coarse_query(first_query + q * 8u, longest); }
  // One bit for each piece that has a row to keep.
  var found = 0u;
  // unroll
  for (var i = 0u; i < PIECES; i++) {
    // unroll
    for (var j = 0u; j < PIECES; j++) {
      // unroll
      for (var a = 0u; a < PARTS; a++) {
        // unroll
        for (var b = 0u; b < PARTS; b++) {
          // naga 30 accepts only named values as arguments of coopStoreT.
          let sum = sums[i * PARTS + a][j * PARTS + b];
          let place = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
          coopStoreT(sum, &pieces[place], 4u);
        }
      }
      subgroupBarrier();
      let low = pieces[own_piece + lane];
      let high = pieces[own_piece + 32u + lane];
      subgroupBarrier();
      let passes = is_passing(side[2u * i], low, scale[j], bias[j]) || is_passing(side[2u * i + 1u], high, scale[j], bias[j]);
      found |= select(0u, 1u << (4u * i + j), passes);
    }
  }
  found = subgroupOr(found);
  while (found != 0u) {
    let number = firstTrailingBit(found);
    found &= found - 1u;
    // unroll
    for (var i = 0u; i < PIECES; i++) {
      // unroll
      for (var j = 0u; j < PIECES; j++) {
        if (number == 4u * i + j) {
          // unroll
          for (var a = 0u; a < PARTS; a++) {
            // unroll
            for (var b = 0u; b < PARTS; b++) {
              let sum = sums[i * PARTS + a][j * PARTS + b];
              let place = own_piece + a * SIDE * 4u + b * (SIDE / 4u);
              coopStoreT(sum, &pieces[place], 4u);
            }
          }
        }
      }
    }
    subgroupBarrier();
    let query = first_query + (number >> 2u) * PIECE;
    let row = first_row + (number & 3u) * PIECE;
    for (var half = 0u; half < 2u; half++) {
      let score = pieces[own_piece + half * 32u + lane];
      for (var r = 0u; r < 4u; r++) { keep_row(query + half * 8u, row + r, score[r]); }
    }
    subgroupBarrier();
  }
}
