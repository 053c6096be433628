// Short rows to one word each, a group of lanes a row: the bits of a sum, a key, or a place.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read> others: array<Row>; // the same; for dot alone
@group(0) @binding(3) var<storage, read_write> results: array<u32>; // [rows]

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
  let state = span(begin, end, begin / 4u, (end + 3u) / 4u, lane, width);
  var record = record_of(state);
  var word = 0u;
  if (compensated) {
    records[lanes.index] = record;
    workgroupBarrier();
    for (var half = TREE / 2u; half > 0u; half >>= 1u) {
      if (lane < half) { records[lanes.index] = combine(records[lanes.index], records[lanes.index + half]); }
      workgroupBarrier();
    }
    let both = bitcast<vec2<f32>>(records[lanes.index]);
    // Beside a sum that left the numbers the error means nothing.
    let are_numbers = all((bitcast<vec2<u32>>(both) & vec2(0x7f800000u)) != vec2(0x7f800000u));
    word = bitcast<u32>(select(both.x, both.x + both.y, are_numbers));
  } else if (OPERATION < 4u) {
    word = bitcast<u32>(lanes_sum(vec4(bitcast<f32>(record.x), 0.0, 0.0, 0.0), lanes).x);
  } else {
    word = lanes_min(record.x, lanes);
  }
  if (OPERATION >= 7u) {
    // The first place of those that have the smallest key; none has one where there is no number.
    let places = select(vec4(NOTHING), state.vectors * 4u + vec4(0u, 1u, 2u, 3u) - vec4(begin), state.keys == vec4(word));
    let place = min(min(places.x, places.y), min(places.z, places.w));
    word = lanes_min(select(NOTHING, place, word <= LARGEST_NUMBER), lanes);
  }
  if (lane == 0u && row < params.rows) { results[row] = word; }
}
