// Where the blocks of each list start: `height` queries by the rows of a tile. One workgroup walks over all lists, four per
// invocation at a time.
@group(0) @binding(1) var<storage, read> counts: array<u32>; // [lists]: queries that probe it
@group(0) @binding(2) var<storage, read> tables: array<u32>; // [lists + 1]: where the tiles of a list start
@group(0) @binding(3) var<storage, read_write> starts: array<u32>; // [lists + 1]: first block

var<workgroup> sums: array<u32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn list_work(@builtin(local_invocation_index) index: u32) {
  var carry = 0u;
  for (var start = 0u; start < params.lists; start += 4u * WORKGROUP) {
    let first = start + index * 4u;
    var own = array<u32, 4>();
    var total = 0u;
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      own[i] = total;
      if (first + i < params.lists) {
        let tiles = tables[first + i + 1u] - tables[first + i];
        total += (counts[first + i] + params.height - 1u) / params.height * tiles;
      }
    }
    sums[index] = total;
    workgroupBarrier();
    for (var distance = 1u; distance < WORKGROUP; distance <<= 1u) {
      var before = 0u;
      if (index >= distance) { before = sums[index - distance]; }
      workgroupBarrier();
      sums[index] += before;
      workgroupBarrier();
    }
    let base = carry + sums[index] - total;
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      if (first + i < params.lists) { starts[first + i] = base + own[i]; }
    }
    carry += sums[WORKGROUP - 1u];
    workgroupBarrier();
  }
  if (index == 0u) { starts[params.lists] = carry; }
}
