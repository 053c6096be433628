// Squared and inverse norms of rows, and whether a row is valid: its elements are finite, and its norm is 0 or in range.
// Sixteen invocations share a row.
@group(0) @binding(1) var<storage, read> rows: array<Row>; // [rows, dim]
@group(0) @binding(2) var<storage, read_write> row_norms: array<vec2<f32>>; // [rows]: squared, inverse (0 for a zero row)
@group(0) @binding(3) var<storage, read_write> refused: array<atomic<u32>>; // [2]: first row that is not finite, first out of range

const NOT_FINITE = 1u;
const NOT_ZERO = 2u;

var<workgroup> findings: array<atomic<u32>, AT_ONCE>;

@compute @workgroup_size(WORKGROUP)
fn norms(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = params.first_row + workgroup_number(workgroup, workgroups) * AT_ONCE + index / WIDTH;
  if (index < AT_ONCE) { atomicStore(&findings[index], 0u); }
  workgroupBarrier();
  var squares = vec4(0.0);
  var finding = 0u;
  if (row < params.end_row) {
    for (var i = index % WIDTH; i < params.vectors; i += WIDTH) {
      let four = widen(rows[row * params.vectors + i]);
      let magnitude = bitcast<vec4<u32>>(four) & vec4(0x7fffffffu);
      if (any(magnitude >= vec4(0x7f800000u))) { finding |= NOT_FINITE; }
      if (any(magnitude != vec4(0u))) { finding |= NOT_ZERO; }
      squares = fma(four, four, squares);
    }
    atomicOr(&findings[index / WIDTH], finding);
  }
  let squared = sixteen_sum(index, vec4(across(squares), 0.0, 0.0, 0.0)).x;
  if (index % WIDTH == 0u && row < params.end_row) {
    let found = atomicLoad(&findings[index / WIDTH]);
    // An overflowed sum is compared by its bits: comparisons may assume that there is no infinity.
    let bits = bitcast<u32>(squared);
    let fits = bits <= LARGEST_SQUARED && bits >= SMALLEST_SQUARED;
    if ((found & NOT_FINITE) != 0u) {
      atomicMin(&refused[0], row - params.first_row + params.first_number);
    } else if ((found & NOT_ZERO) != 0u && !fits) {
      atomicMin(&refused[1], row - params.first_row + params.first_number);
    }
    var inverse = 0.0;
    if (squared > 0.0) { inverse = 1.0 / sqrt(squared); }
    row_norms[row] = vec2(squared, inverse);
  }
}
