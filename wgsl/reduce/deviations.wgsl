// Sums the squared deviations of values from the mean of their block. A group of WIDTH invocations takes a block and keeps it
// in registers, so memory is read once.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read_write> records: array<f32>; // [rows, pitch, words]: the sum, and two parts of the mean

override WIDTH: u32 = 256u;

var<workgroup> totals: array<f32, WORKGROUP>;

// The sum over the invocations of a block, for each of them.
fn block_sum(four: vec4<f32>, lanes: Lanes) -> f32 {
  let share = across(four);
  if (WIDTH == 1u) { return share; }
  if (WIDTH == WORKGROUP) {
    let sum = lanes_sum(vec4(share, 0.0, 0.0, 0.0), lanes).x;
    // Others may still read what the last sum left.
    workgroupBarrier();
    if (lane_of(lanes) == 0u) { totals[group_of(lanes)] = sum; }
    workgroupBarrier();
    var total = totals[0];
    for (var group = 1u; group < group_count(lanes, WORKGROUP); group++) { total += totals[group]; }
    return total;
  }
  workgroupBarrier();
  totals[lanes.index] = share;
  workgroupBarrier();
  for (var half = WIDTH / 2u; half > 0u; half >>= 1u) {
    if (lanes.index % WIDTH < half) { totals[lanes.index] += totals[lanes.index + half]; }
    workgroupBarrier();
  }
  return totals[lanes.index - lanes.index % WIDTH];
}

// The quotient of a sum and a count up to 4096, rounded once: equal values have a mean equal to each, from which none deviates.
// WGSL's division may be off by more. The remainder is exact, because no product here has more than 24 bits.
fn mean_of(sum: f32, count: f32) -> f32 {
  let quotient = opaque(vec4(sum / count)).x;
  let high = bitcast<f32>(bitcast<u32>(quotient) & 0xfffff000u);
  let remainder = opaque(vec4(sum - count * high)).x - count * (quotient - high);
  return quotient + remainder / count;
}

// The elements of a vector that lie between `begin` and `end`, and 0 in the place of others.
fn within(vector: u32, four: vec4<f32>, begin: u32, end: u32) -> vec4<f32> {
  // Nearly all blocks are whole.
  if (end - begin == WIDTH * HELD * 4u) { return four; }
  let element = vec4(vector * 4u) + vec4(0u, 1u, 2u, 3u);
  return select(vec4(0.0), four, (element >= vec4(begin)) & (element < vec4(end)));
}

@compute @workgroup_size(WORKGROUP)
fn deviations(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let number = workgroup_number(workgroup, workgroups) * (WORKGROUP / WIDTH) + lanes.index / WIDTH;
  // A group without a block takes part without elements, because all must reach the barriers.
  let is_there = number < params.rows * params.blocks;
  let row = select(0u, number / params.blocks, is_there);
  let block = number % params.blocks;
  let row_begin = params.first + row * params.stride;
  let row_end = row_begin + select(0u, params.length, is_there);
  let vectors_end = (row_end + 3u) / 4u;
  let from_vector = min(row_begin / 4u + block * (WIDTH * HELD), vectors_end);
  let begin = max(row_begin, from_vector * 4u);
  let end = min(row_end, min(from_vector + WIDTH * HELD, vectors_end) * 4u);
  let count = f32(max(end, begin + 1u) - begin);
  let mine = from_vector + lanes.index % WIDTH;

  var held: array<vec4<f32>, HELD>;
  var sum = vec4(0.0);
  // unroll
  for (var i = 0u; i < HELD; i++) { held[i] = widen(values[min(mine + i * WIDTH, max(vectors_end, 1u) - 1u)]); }
  // unroll
  for (var i = 0u; i < HELD; i++) {
    // The scale is a power of two, so it changes no digit.
    held[i] = within(mine + i * WIDTH, held[i] * params.scale, begin, end);
    sum += held[i];
  }
  let mean = mean_of(block_sum(sum, lanes), count);

  // The mean is off by what its sum has rounded off. Values near it lose nothing when it is subtracted, so the mean of the
  // differences is what it lacks.
  sum = vec4(0.0);
  // unroll
  for (var i = 0u; i < HELD; i++) {
    held[i] = within(mine + i * WIDTH, opaque(held[i] - vec4(mean)), begin, end);
    sum += held[i];
  }
  let rest = mean_of(block_sum(sum, lanes), count);

  sum = vec4(0.0);
  // unroll
  for (var i = 0u; i < HELD; i++) {
    let deviation = within(mine + i * WIDTH, held[i] - vec4(rest), begin, end);
    sum = fma(deviation, deviation, sum);
  }
  let squares = block_sum(sum, lanes);
  if (lanes.index % WIDTH == 0u && is_there) {
    let place = (row * params.pitch + params.first_block + block) * params.words;
    records[place] = squares;
    if (params.words > 1u) {
      records[place + 1u] = mean;
      records[place + 2u] = rest;
    }
  }
}
