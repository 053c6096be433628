// Reduces short rows to one word each, one group of lanes per row: the bits of a sum, a key, or a place.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read> others: array<Row>; // the same; only for dot
@group(0) @binding(3) var<storage, read_write> results: array<u32>; // [rows]

// Invocations per row, which combine their records in workgroup memory; 0: one group of lanes per row. Rows of few vectors would
// leave most lanes of a group idle, and lanes cannot add errors beside sums.
override WIDTH: u32 = 0u;

var<workgroup> records: array<vec2<u32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn reduce_rows(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  var width = WIDTH;
  var groups = 0u;
  var lane = 0u;
  var group = 0u;
  if (WIDTH == 0u) {
    width = lanes_count(lanes);
    groups = full_groups(lanes, WORKGROUP);
    lane = lane_of(lanes);
    group = group_of(lanes);
  } else {
    groups = WORKGROUP / width;
    lane = lanes.index % width;
    group = lanes.index / width;
  }
  let row = workgroup_number(workgroup, workgroups) * groups + group;
  // A group without a row takes part without elements, because all must reach the barriers.
  let begin = params.first + min(row, params.rows - 1u) * params.stride;
  let end = begin + select(0u, params.length, row < params.rows);
  let state = span(begin, end, begin / 4u, (end + 3u) / 4u, lane, width);
  var record = record_of(state);
  if (OPERATION >= OPERATION_ARG_MIN) {
    // The first place with this invocation's smallest key.
    let places = select(vec4(NOTHING), state.vectors * 4u + vec4(0u, 1u, 2u, 3u) - vec4(begin), state.keys == vec4(record.x));
    record.y = min(min(places.x, places.y), min(places.z, places.w));
  }
  if (WIDTH > 0u) {
    records[lanes.index] = record;
    workgroupBarrier();
    for (var half = WIDTH / 2u; half > 0u; half >>= 1u) {
      if (lane < half) { records[lanes.index] = combine(records[lanes.index], records[lanes.index + half]); }
      workgroupBarrier();
    }
    record = records[lanes.index];
  } else if (OPERATION < OPERATION_MAX_ABS) {
    record.x = bitcast<u32>(lanes_sum(vec4(bitcast<f32>(record.x), 0.0, 0.0, 0.0), lanes).x);
  } else {
    let key = lanes_min(record.x, lanes);
    if (OPERATION >= OPERATION_ARG_MIN) { record.y = lanes_min(select(NOTHING, record.y, record.x == key), lanes); }
    record.x = key;
  }
  var word = record.x;
  if (OPERATION < OPERATION_MAX_ABS && COMPENSATED == 1u) {
    let both = bitcast<vec2<f32>>(record);
    // Beside an infinite or NaN sum the error has no meaning.
    let are_numbers = all((record & vec2(0x7f800000u)) != vec2(0x7f800000u));
    word = bitcast<u32>(select(both.x, both.x + both.y, are_numbers));
  }
  if (OPERATION >= OPERATION_ARG_MIN) { word = select(NOTHING, record.y, record.x <= LARGEST_NUMBER); }
  if (lane == 0u && group < groups && row < params.rows) { results[row] = word; }
}
