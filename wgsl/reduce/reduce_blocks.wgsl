// Reduces blocks of values to records, one workgroup per block. Every invocation reduces its share, groups of lanes combine
// theirs, and then the groups combine. Neighbouring invocations read neighbouring vectors.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read> others: array<Row>; // the same; only for dot
@group(0) @binding(3) var<storage, read_write> partials: array<vec2<u32>>; // [rows, pitch]

override WORKGROUP: u32 = 256u;

var<workgroup> records: array<vec2<u32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn reduce_blocks(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let number = workgroup_number(workgroup, workgroups);
  let row = number / params.blocks;
  let block = number % params.blocks;
  if (row >= params.rows) { return; }
  let begin = params.first + row * params.stride;
  let end = begin + params.length;
  let from_vector = begin / 4u + block * params.block_vectors;
  let to_vector = min(from_vector + params.block_vectors, (end + 3u) / 4u);
  var record = record_of(span(begin, end, from_vector, to_vector, lanes.index, WORKGROUP));
  if (OPERATION < OPERATION_MAX_ABS && COMPENSATED == 1u) {
    records[lanes.index] = record;
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half > 0u; half >>= 1u) {
      if (lanes.index < half) { records[lanes.index] = combine(records[lanes.index], records[lanes.index + half]); }
      workgroupBarrier();
    }
    record = records[0];
  } else {
    if (OPERATION < OPERATION_MAX_ABS) {
      record.x = bitcast<u32>(lanes_sum(vec4(bitcast<f32>(record.x), 0.0, 0.0, 0.0), lanes).x);
    } else {
      record.x = lanes_min(record.x, lanes);
    }
    if (lane_of(lanes) == 0u) { records[group_of(lanes)] = record; }
    workgroupBarrier();
    if (lanes.index == 0u) {
      for (var group = 1u; group < group_count(lanes, WORKGROUP); group++) { record = combine(record, records[group]); }
    }
  }
  if (lanes.index == 0u) {
    if (OPERATION >= OPERATION_MAX_ABS) { record.y = params.first_block + block; }
    partials[row * params.pitch + params.first_block + block] = record;
  }
}
