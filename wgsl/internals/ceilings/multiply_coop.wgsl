// Measures the adapter's rate on cooperative matrices: a subgroup keeps 4 x 4 sums and operands that never change.
const VECTORS = MATRICES * SIDE * SIDE / 4u; // of one operand

@group(0) @binding(1) var<storage, read_write> sums: array<f32>; // [subgroups, MATRICES, MATRICES, SIDE, SIDE]

var<workgroup> operands: array<vec4<f16>, VECTORS>;

@compute @workgroup_size(WORKGROUP)
fn multiply_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  for (var i = index; i < VECTORS; i += WORKGROUP) {
    operands[i] = vec4<f16>(f16(i % 3u), f16(i % 5u), -f16(i % 2u), f16(i % 7u));
  }
  workgroupBarrier();
  var left: array<Left, MATRICES>;
  var right: array<Right, MATRICES>;
  // unroll
  for (var i = 0u; i < MATRICES; i++) {
    left[i] = coopLoadT<Left>(&operands[i * SIDE * SIDE / 4u], SIDE / 4u);
    right[i] = coopLoad<Right>(&operands[i * SIDE * SIDE / 4u], SIDE / 4u);
  }
  var found: array<array<Sum, MATRICES>, MATRICES>;
  for (var turn = 0u; turn < params.turns; turn++) {
    // unroll
    for (var i = 0u; i < MATRICES; i++) {
      // unroll
      for (var j = 0u; j < MATRICES; j++) {
        found[i][j] = coopMultiplyAdd(left[i], right[j], found[i][j]);
      }
    }
  }
  // naga 30 accepts only named values as arguments of coopStoreT.
  let first = (workgroup.x * SUBGROUPS + index / (WORKGROUP / SUBGROUPS)) * MATRICES * MATRICES * SIDE * SIDE;
  // unroll
  for (var i = 0u; i < MATRICES; i++) {
    // unroll
    for (var j = 0u; j < MATRICES; j++) {
      let sum = found[i][j];
      let place = first + (i * MATRICES + j) * SIDE * SIDE;
      coopStoreT(sum, &sums[place], SIDE);
    }
  }
}
