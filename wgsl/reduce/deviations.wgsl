// Sums the squared deviations of values from the mean of their block. A group of WIDTH invocations takes a block of up to HELD
// vectors for each and keeps it in registers, so memory is read once. Where WIDTH is 0, caches serve the later reads.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read_write> records: array<f32>; // [rows, pitch, words]: the sum, and two parts of the mean

// Invocations per block; 0: one group of lanes per row, which is one block and is read three times, the last times from caches.
// Where a row is too long for the registers of a group of lanes, barriers among more invocations would take longer.
override WIDTH: u32 = 256u;

var<workgroup> totals: array<f32, WORKGROUP>;

// The sum over the invocations of a block, for each of them.
fn block_sum(share: f32, lanes: Lanes) -> f32 {
  if (WIDTH == 1u) { return share; }
  if (WIDTH == 0u) { return lanes_sum(vec4(share, 0.0, 0.0, 0.0), lanes).x; }
  if (WIDTH == WORKGROUP) {
    let sum = lanes_sum(vec4(share, 0.0, 0.0, 0.0), lanes).x;
    // Others may still read what the last sum left.
    workgroupBarrier();
    if (lane_of(lanes) == 0u) { totals[group_of(lanes)] = sum; }
    workgroupBarrier();
    if (lanes.index == 0u) {
      var total = totals[0];
      for (var group = 1u; group < group_count(lanes, WORKGROUP); group++) { total += totals[group]; }
      totals[0] = total;
    }
    workgroupBarrier();
    return totals[0];
  }
  let lane = lanes.index % max(WIDTH, 1u);
  workgroupBarrier();
  totals[lanes.index] = share;
  workgroupBarrier();
  for (var half = WIDTH / 2u; half > 0u; half >>= 1u) {
    if (lane < half) { totals[lanes.index] += totals[lanes.index + half]; }
    workgroupBarrier();
  }
  return totals[lanes.index - lane];
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
  // Nearly all vectors are whole.
  let first = vector * 4u;
  if (first >= begin && first + 4u <= end) { return four; }
  let element = vec4(first) + vec4(0u, 1u, 2u, 3u);
  return select(vec4(0.0), four, (element >= vec4(begin)) & (element < vec4(end)));
}

@compute @workgroup_size(WORKGROUP)
fn deviations(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  var width = WIDTH;
  var lane = lanes.index % max(WIDTH, 1u);
  var group = lanes.index / max(WIDTH, 1u);
  var groups = WORKGROUP / max(WIDTH, 1u);
  if (WIDTH == 0u) {
    width = lanes_count(lanes);
    groups = full_groups(lanes, WORKGROUP);
    lane = lane_of(lanes);
    group = group_of(lanes);
  }
  let number = workgroup_number(workgroup, workgroups) * groups + group;
  // A group without a block takes part without elements, because all must reach the barriers.
  let is_there = group < groups && number < params.rows * params.blocks;
  let row = select(0u, number / params.blocks, is_there);
  let block = number % params.blocks;
  let row_begin = params.first + row * params.stride;
  let row_end = row_begin + select(0u, params.length, is_there);
  let vectors_end = (row_end + 3u) / 4u;
  let from_vector = min(row_begin / 4u + block * (WIDTH * HELD), vectors_end);
  let to_vector = select(min(from_vector + WIDTH * HELD, vectors_end), vectors_end, WIDTH == 0u);
  let begin = max(row_begin, from_vector * 4u);
  let end = min(row_end, to_vector * 4u);
  let count = f32(max(end, begin + 1u) - begin);

  // The mean is off by what its sum has rounded off. Values near it lose nothing when it is subtracted, so the mean of the
  // differences is what it lacks.
  var mean = 0.0;
  var rest = 0.0;
  var total = 0.0;
  var held: array<vec4<f32>, HELD>;
  // unroll
  for (var phase = 0u; phase < 3u; phase++) {
    var sums = array<vec4<f32>, HELD>();
    for (var vector = from_vector + lane; vector < to_vector; vector += HELD * width) {
      if (phase == 0u || WIDTH == 0u) {
        // unroll
        for (var i = 0u; i < HELD; i++) { held[i] = widen(values[min(vector + i * width, to_vector - 1u)]); }
        // unroll
        for (var i = 0u; i < HELD; i++) {
          // The scale is a power of two, so it changes no digit.
          held[i] *= params.scale;
        }
      }
      // unroll
      for (var i = 0u; i < HELD; i++) {
        var term = held[i];
        if (phase > 0u) { term = opaque(term - vec4(mean)); }
        if (phase > 1u) { term -= vec4(rest); }
        term = within(vector + i * width, term, begin, end);
        if (phase > 1u) { sums[i] = fma(term, term, sums[i]); } else { sums[i] += term; }
      }
      if (WIDTH > 0u) { break; }
    }
    total = block_sum(across((sums[0] + sums[1]) + (sums[2] + sums[3])), lanes);
    if (phase == 0u) { mean = mean_of(total, count); }
    if (phase == 1u) { rest = mean_of(total, count); }
  }
  if (lane == 0u && is_there) {
    let place = (row * params.pitch + params.first_block + block) * params.words;
    records[place] = total;
    if (params.words > 1u) {
      records[place + 1u] = mean;
      records[place + 2u] = rest;
    }
  }
}
