// Finds where a row's smallest key was. The row's record names the block, and one workgroup searches that block again.
@group(0) @binding(1) var<storage, read> values: array<Row>; // [rows, stride]
@group(0) @binding(2) var<storage, read> results: array<vec2<u32>>; // [rows]: key, block
@group(0) @binding(3) var<storage, read_write> places: array<u32>; // [rows]: first element with the key, from the row's start here

var<workgroup> earliest: atomic<u32>;

// The first element with this key in an invocation's share of the vectors `from_vector` to `to_vector`, among the elements `begin`
// to `end` and counted from `begin`. NOTHING if there is none.
fn first_with(key: u32, begin: u32, end: u32, from_vector: u32, to_vector: u32, lane: u32, width: u32) -> u32 {
  var found = NOTHING;
  for (var i = from_vector + lane; i < to_vector; i += 8u * width) {
    var value = array<vec4<f32>, 8>();
    // unroll
    for (var c = 0u; c < 8u; c++) { value[c] = widen(values[min(i + c * width, to_vector - 1u)]); }
    // unroll
    for (var c = 0u; c < 8u; c++) {
      let keys = canonical(keys_of(value[c]));
      // unroll
      for (var e = 0u; e < 4u; e++) {
        let element = min(i + c * width, to_vector - 1u) * 4u + e;
        if ((keys[e] == key) & (element >= begin) & (element < end)) { found = min(found, element - begin); }
      }
    }
    if (found != NOTHING) { break; }
  }
  return found;
}

@compute @workgroup_size(WORKGROUP)
fn locate(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let row = workgroup_number(workgroup, workgroups);
  if (row >= params.rows) { return; }
  if (index == 0u) { atomicStore(&earliest, NOTHING); }
  workgroupBarrier();
  let key = results[row].x;
  // Other dispatches search the blocks of other buffers.
  let block = results[row].y - params.first_block;
  if (block < params.blocks) {
    let begin = params.first + row * params.stride;
    let end = begin + params.length;
    let from_vector = begin / 4u + block * params.block_vectors;
    let to_vector = min(from_vector + params.block_vectors, (end + 3u) / 4u);
    atomicMin(&earliest, first_with(key, begin, end, from_vector, to_vector, index, WORKGROUP));
  }
  workgroupBarrier();
  if (index == 0u && block < params.blocks) { places[row] = atomicLoad(&earliest); }
}
