// Quantises vectors to 8-bit integers. A vector minus the centre is a scale times integers plus a residual, whose length is
// kept. Sixteen invocations share a vector. docs/certified-search.md derives the bounds that the terms must meet; all
// rounding constants come from src/screen/certificate.rs.
@group(0) @binding(1) var<storage, read> rows: array<Row>; // [rows, dim]
@group(0) @binding(2) var<storage, read> row_norms: array<vec2<f32>>; // [rows]: squared, inverse
@group(0) @binding(3) var<storage, read> centre: array<vec4<f32>>; // [dim]
@group(0) @binding(4) var<storage, read_write> quantized: array<u32>; // [PLANES] blocks of BLOCK_ROWS rows, 16 dimensions after 16
@group(0) @binding(5) var<storage, read_write> terms: array<vec4<f32>>; // [rows]: scale, length, residual, bias
@group(0) @binding(6) var<storage, read> slots: array<u32>; // [rows], if SLOTS = 1

override METRIC: u32 = 0u; // L2 also for bits
override PLANES: u32 = 1u; // 2: the residual is quantised, too
override SLOTS: u32 = 0u; // 1: rows lie in the order of a list; their integers and terms go to their slots

// The bits of the largest magnitude: as integers they order as the numbers do.
var<workgroup> largest: array<atomic<u32>, AT_ONCE>;

// Elements 4 i to 4 i + 3 of the vector minus the centre; for cosine, of the vector with length 1.
fn centred(row: u32, i: u32, inverse: f32) -> vec4<f32> {
  if (i >= params.vectors) { return vec4(0.0); }
  let four = widen(rows[row * params.vectors + i]);
  if (METRIC == METRIC_COSINE) { return four * inverse - centre[i]; }
  return four - centre[i];
}

fn packed(four: vec4<f32>) -> u32 {
  // Stored with 128 added.
  return pack4xU8(vec4<u32>(vec4<i32>(four) + vec4(128)));
}

@compute @workgroup_size(WORKGROUP)
fn quantize(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = params.first_row + workgroup_number(workgroup, workgroups) * AT_ONCE + index / WIDTH;
  let lane = index % WIDTH;
  var here = row < params.end_row;
  // Where integers and terms go.
  var place_of_row = row;
  if (SLOTS == 1u && here) {
    place_of_row = slots[row] - params.first_slot; // for a smaller slot it wraps and exceeds any row
    here = place_of_row < params.rows;
  }
  if (index < AT_ONCE) { atomicStore(&largest[index], 0u); }
  workgroupBarrier();
  var inverse = 1.0;
  if (here) {
    if (METRIC == METRIC_COSINE) { inverse = row_norms[row].y; }
    var most = 0u;
    for (var i = lane; i < params.vectors; i += WIDTH) {
      let bits = bitcast<vec4<u32>>(centred(row, i, inverse)) & vec4(0x7fffffffu);
      most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    atomicMax(&largest[index / WIDTH], most);
  }
  workgroupBarrier();
  let most = bitcast<f32>(atomicLoad(&largest[index / WIDTH]));
  // Such vectors are not quantised: all of the vector is residual, and `tiny` is longer than it.
  let is_tiny = most < params.smallest;
  var scale = 0.0;
  var steps = 0.0;
  if (!is_tiny) {
    scale = most / params.levels;
    steps = params.levels / most;
    if (params.whole == 1u) {
      // Of integers, which for cosine were divided by their norm.
      scale = inverse;
      steps = 1.0 / inverse;
    }
  }
  var squares = vec4(0.0);
  var residuals = vec4(0.0);
  var products = vec4(0.0);
  if (here) {
    for (var i = lane; i < params.granules * 4u; i += WIDTH) {
      let four = centred(row, i, inverse) * steps;
      let least_steps = vec4(-params.levels);
      let most_steps = vec4(min(params.levels, 127.0)); // a byte has one integer more below 0
      let whole = clamp(round(four), least_steps, most_steps);
      var rest = four - whole;
      let place = word_in_blocks(place_of_row, i, params.granules);
      var word = packed(whole);
      if (params.whole == BITS) {
        // Bytes of bits as they are.
        word = 0u;
        if (i < params.vectors) { word = pack4xU8(vec4<u32>(widen(rows[row * params.vectors + i]))); }
        products.x += f32(countOneBits(word));
      }
      quantized[place] = word;
      if (PLANES == 2u) {
        let finer = clamp(round(rest * params.finer), least_steps, most_steps);
        rest -= finer * params.fraction;
        quantized[params.plane * 4u + place] = packed(finer);
      }
      squares = fma(four, four, squares);
      residuals = fma(rest, rest, residuals);
      if (METRIC != METRIC_L2 && i < params.vectors) {
        let x = widen(rows[row * params.vectors + i]);
        products = fma(select(x, x * inverse, METRIC == METRIC_COSINE), centre[i], products);
      }
    }
  }
  let sums = sixteen_sum(index, vec4(across(squares), across(residuals), across(products), 0.0));
  if (lane == 0u && here) {
    var length = scale * sqrt(sums.x) * params.inflation + params.unit_error;
    var residual = scale * sqrt(sums.y) * params.inflation + params.step_error * length + params.unit_error;
    if (is_tiny) {
      length = params.tiny + params.unit_error;
      residual = length;
    }
    var bias = scale * (scale * sums.x);
    if (METRIC != METRIC_L2) { bias = sums.z; }
    terms[place_of_row] = vec4(scale, length, residual, bias);
    if (params.whole == BITS) { terms[place_of_row] = vec4(1.0, 0.0, 0.0, sums.z); }
  }
}
