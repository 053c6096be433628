// Measures how fast the adapter reads. An invocation adds up vectors of one stretch, its neighbours reading neighbouring
// vectors, and writes as little as it can.
@group(0) @binding(1) var<storage, read> values: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<f32>; // [workgroups * WORKGROUP]

@compute @workgroup_size(WORKGROUP)
fn read_vectors(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let first = number * VECTORS_A_WORKGROUP + index;
  // Four chains, so that loads do not wait for sums.
  var sum: array<vec4<f32>, 4>;
  for (var turn = 0u; turn < 4u; turn++) {
    // unroll
    for (var i = 0u; i < 4u; i++) {
      let place = first + (turn * 4u + i) * WORKGROUP;
      if (place < params.vectors) { sum[i] += values[place]; }
    }
  }
  let all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  sums[number * WORKGROUP + index] = (all.x + all.y) + (all.z + all.w);
}
