// Finds the largest similarity, by their codes, of each token of some queries with the tokens of each document: tiles of 128 of either, by
// four-way integer products. No score goes to memory.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]

fn terms_of(row: u32) -> vec4<f32> {
  // Behind the end may lie rows that were refused.
  if (row >= params.rows) { return vec4(0.0); }
  return row_terms[row];
}

var<workgroup> best: array<atomic<u32>, TILE>; // keys

@compute @workgroup_size(WORKGROUP)
fn maxsim_tile_i8(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let places = blocks[params.first_entry + workgroup.y];
  let block = places.number - params.first_block;
  if (index < TILE) { atomicStore(&best[index], 0u); }
  var sums: Sums;
  multiply_tile(workgroup.x, block, index, &sums);
  // A copy, because an index that is not a constant would take the sums out of the registers in which they are multiplied.
  var totals = sums;
  let first_query = index / ACROSS * 4u;
  for (var part = part_of(places, 0u); part.start < TILE; part = next_part(places, part)) {
    if (!is_here(part)) { continue; }
    var scale = array<vec4<f32>, FOURS>();
    var bias = array<vec4<f32>, FOURS>();
    // unroll on hardware
    for (var j = 0u; j < FOURS; j++) {
      let row = (j * ACROSS + index % ACROSS) * 4u;
      // unroll on hardware
      for (var r = 0u; r < 4u; r++) {
        let terms = terms_of(block * TILE + row + r);
        scale[j][r] = terms.x;
        // Rows of other parts are far by their bias.
        bias[j][r] = select(NOWHERE, terms.w, row + r >= part.start && row + r < part.end);
      }
    }
    // unroll on hardware
    for (var i = 0u; i < 2u; i++) {
      // unroll on hardware
      for (var e = 0u; e < 4u; e++) {
        let query = first_query + i * DOWN * 4u + e;
        let factor = query_terms[workgroup.x * TILE + query].x;
        var most = vec4(NOWHERE);
        // unroll on hardware
        for (var j = 0u; j < FOURS; j++) {
          most = max(most, fma(vec4(factor), scale[j] * vec4<f32>(totals[i * 4u + e][j]), bias[j]));
        }
        atomicMax(&best[query], key_of(max(max(most.x, most.y), max(most.z, most.w))));
      }
    }
    workgroupBarrier();
    if (index < TILE) {
      note_nearest(part, workgroup.x * TILE + index, atomicLoad(&best[index]));
      atomicStore(&best[index], 0u);
    }
    workgroupBarrier();
  }
}
