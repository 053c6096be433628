// Short rows to one record each, a group of lanes a row. An argmin goes through its row a second time, which a cache still
// holds, to find where the smallest key was.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read> others: array<Row>; // the same; for dot alone
@group(0) @binding(3) var<storage, read_write> results: array<vec2<u32>>; // [rows]

/// Lanes a row where records are combined in workgroup memory.
const TREE = 32u;

var<workgroup> records: array<vec2<u32>, 256>;

@compute @workgroup_size(256)
fn reduce_rows(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  let compensated = OPERATION < 4u && COMPENSATED == 1u;
  let width = select(lanes_size(lanes), TREE, compensated);
  let lane = select(lane_of(lanes), lanes.index % TREE, compensated);
  let group = select(group_of(lanes), lanes.index / TREE, compensated);
  let row = workgroup_number(workgroup, workgroups) * (256u / width) + group;
  // A group without a row goes along with nothing, because all have to reach the barriers.
  let begin = params.first + min(row, params.rows - 1u) * params.stride;
  let end = begin + select(0u, params.length, row < params.rows);
  var record = record_of(span(begin, end, begin / 4u, (end + 3u) / 4u, lane, width));
  if (compensated) {
    records[lanes.index] = record;
    workgroupBarrier();
    for (var half = TREE / 2u; half > 0u; half >>= 1u) {
      if (lane < half) { records[lanes.index] = combine(records[lanes.index], records[lanes.index + half]); }
      workgroupBarrier();
    }
    record = records[lanes.index];
  } else if (OPERATION < 4u) {
    record.x = bitcast<u32>(lanes_sum(vec4(bitcast<f32>(record.x), 0.0, 0.0, 0.0), lanes).x);
  } else {
    record.x = lanes_min(record.x, lanes);
  }
  if (OPERATION >= 7u) {
    record.y = lanes_min(first_with(record.x, begin, end, begin / 4u, (end + 3u) / 4u, lane, width), lanes);
  }
  if (lane == 0u && row < params.rows) { results[row] = record; }
}
