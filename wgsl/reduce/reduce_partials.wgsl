// Merges the records of a row's blocks into one, one workgroup per row.
@group(0) @binding(1) var<storage, read> partials: array<vec2<u32>>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> results: array<vec2<u32>>; // [rows]

var<workgroup> records: array<vec2<u32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn reduce_partials(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  let first = row * params.pitch;
  var record = empty_record();
  var i = index;
  for (; i + 7u * WORKGROUP < params.pitch; i += 8u * WORKGROUP) {
    var loaded = array<vec2<u32>, 8>();
    // unroll
    for (var c = 0u; c < 8u; c++) { loaded[c] = partials[first + i + c * WORKGROUP]; }
    // unroll
    for (var c = 0u; c < 8u; c++) { record = combine(record, loaded[c]); }
  }
  for (; i < params.pitch; i += WORKGROUP) { record = combine(record, partials[first + i]); }
  records[index] = record;
  workgroupBarrier();
  for (var half = WORKGROUP / 2u; half > 0u; half >>= 1u) {
    if (index < half) { records[index] = combine(records[index], records[index + half]); }
    workgroupBarrier();
  }
  if (index == 0u) { results[row] = records[0]; }
}
