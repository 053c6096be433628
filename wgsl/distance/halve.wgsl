// Vectors to f16. A power of two for each vector brings its norm to between 2^14 and 2^15, so that no element overflows and
// hardly any is too small. Pads vectors with zeros.
@group(0) @binding(1) var<storage, read> rows: array<vec4<f32>>; // [rows, row_pitch]
@group(0) @binding(2) var<storage, read> row_norms: array<vec2<f32>>; // [rows]: squared, inverse
@group(0) @binding(3) var<storage, read_write> halves: array<vec2<u32>>; // [rows, half_pitch]: four f16 each
@group(0) @binding(4) var<storage, read_write> factors: array<vec2<f32>>; // [rows]: from a sum to the product, to the cosine

fn power_of_two(exponent: i32) -> f32 { return bitcast<f32>(u32(exponent + 127) << 23u); }

@compute @workgroup_size(WORKGROUP)
fn halve(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let place = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  let row = place / params.half_pitch;
  let vector = place % params.half_pitch;
  if (row >= params.rows) { return; }
  let norms = row_norms[row];
  // The exponent of the norm: half that of its square, rounded down.
  let exponent = (i32(bitcast<u32>(norms.x) >> 23u) - 127) >> 1u;
  var four = vec4(0.0);
  if (vector < params.vectors) { four = rows[row * params.row_pitch + vector] * power_of_two(14 - exponent); }
  halves[place] = vec2(pack2x16float(four.xy), pack2x16float(four.zw));
  if (vector == 0u) {
    let back = power_of_two(exponent - 14);
    factors[row] = vec2(back, back * norms.y);
  }
}
