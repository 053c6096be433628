// The mean of each list's rows, added in their order, one workgroup per list. An empty list keeps its mean. Means are
// normalised on request. Rows may lie in several buffers: then the rows of a list ascend, one dispatch a buffer adds those that are
// there, and the last makes a mean of the sum.
@group(0) @binding(1) var<storage, read> rows: array<vec4<f32>>; // [end_row - first_row, dim]
@group(0) @binding(2) var<storage, read> row_norms: array<vec2<f32>>; // [end_row - first_row]: squared, inverse
@group(0) @binding(3) var<storage, read> order: array<u32>; // [rows]: row numbers, list by list
@group(0) @binding(4) var<storage, read> offsets: array<u32>; // [lists + 1]: where they start
@group(0) @binding(5) var<storage, read_write> means: array<vec4<f32>>; // [lists, dim]

override NORMALIZE: u32 = 0u; // which vectors are normalised

const AT_ONCE = 4u; // rows that are loaded together

var<workgroup> squares: array<f32, WORKGROUP>;

fn element(place: u32, column: u32) -> vec4<f32> {
  let row = order[place] - params.first_row;
  let value = rows[row * params.vectors + column];
  if (NORMALIZE == NORMALIZE_MEANS_AND_ROWS) { return value * row_norms[row].y; }
  return value;
}

// The first place from `begin` on, before `end`, with this row or a later one.
fn place_of(row: u32, begin: u32, end: u32) -> u32 {
  var low = begin;
  var high = end;
  while (low < high) {
    let middle = (low + high) >> 1u;
    if (order[middle] < row) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}

@compute @workgroup_size(WORKGROUP)
fn average(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let list = workgroup_number(workgroup, workgroups);
  if (list >= params.lists) { return; }
  var begin = offsets[list];
  var end = offsets[list + 1u];
  if (begin >= end) { return; }
  let is_first = params.first_row == 0u;
  let is_last = params.is_last == 1u;
  var share = 1.0;
  if (is_last) { share = 1.0 / f32(end - begin); }
  if (!is_first) { begin = place_of(params.first_row, begin, end); }
  if (!is_last) { end = place_of(params.end_row, begin, end); }
  var square = vec4(0.0);
  for (var column = index; column < params.vectors; column += WORKGROUP) {
    var sum = vec4(0.0);
    if (!is_first) { sum = means[list * params.vectors + column]; }
    var place = begin;
    for (; place + AT_ONCE <= end; place += AT_ONCE) {
      var four = array<vec4<f32>, AT_ONCE>();
      // unroll
      for (var i = 0u; i < AT_ONCE; i++) { four[i] = element(place + i, column); }
      // unroll
      for (var i = 0u; i < AT_ONCE; i++) { sum += four[i]; }
    }
    for (; place < end; place += 1u) { sum += element(place, column); }
    let mean = sum * share;
    square = fma(mean, mean, square);
    means[list * params.vectors + column] = mean;
  }
  if (NORMALIZE == NORMALIZE_NOTHING || !is_last) { return; }
  squares[index] = (square.x + square.y) + (square.z + square.w);
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < WORKGROUP; i++) { total += squares[i]; }
  // The mean of opposite rows has no direction.
  if (total < 1e-30) { return; }
  let scale = inverseSqrt(total);
  for (var column = index; column < params.vectors; column += WORKGROUP) {
    means[list * params.vectors + column] *= scale;
  }
}
