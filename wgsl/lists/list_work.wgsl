// Where the pairs of each list start, and where its blocks of scores start: `height` queries by the rows of a tile. One
// workgroup walks over all lists, four per invocation at a time.
@group(0) @binding(1) var<storage, read> counts: array<u32>; // [lists]: pairs
@group(0) @binding(2) var<storage, read> list_tiles: array<u32>; // [lists + 1]: where the tiles of a list start
@group(0) @binding(3) var<storage, read_write> starts: array<vec2<u32>>; // [lists + 1]: first pair, first block of scores

var<workgroup> sums: array<vec2<u32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn list_work(@builtin(local_invocation_index) index: u32) {
  var carry = vec2(0u);
  for (var start = 0u; start < params.lists; start += 4u * WORKGROUP) {
    let first = start + index * 4u;
    var own: array<vec2<u32>, 4>;
    var total = vec2(0u);
    // unroll
    for (var i = 0u; i < 4u; i++) {
      own[i] = total;
      if (first + i < params.lists) {
        let count = counts[first + i];
        let tiles = list_tiles[first + i + 1u] - list_tiles[first + i];
        total += vec2(count, (count + params.height - 1u) / params.height * tiles);
      }
    }
    sums[index] = total;
    workgroupBarrier();
    for (var distance = 1u; distance < WORKGROUP; distance <<= 1u) {
      var before = vec2(0u);
      if (index >= distance) { before = sums[index - distance]; }
      workgroupBarrier();
      sums[index] += before;
      workgroupBarrier();
    }
    let base = carry + sums[index] - total;
    // unroll
    for (var i = 0u; i < 4u; i++) {
      if (first + i < params.lists) { starts[first + i] = base + own[i]; }
    }
    carry += sums[WORKGROUP - 1u];
    workgroupBarrier();
  }
  if (index == 0u) { starts[params.lists] = carry; }
}
