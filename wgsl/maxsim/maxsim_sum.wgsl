// Adds up the largest similarities of the tokens of each query, by their weights: a number for each query and document. Sixteen invocations
// share a sum, so that neighbours read neighbouring similarities.
@group(0) @binding(1) var<storage, read> nearest: array<u32>; // [places, pitch]: keys
@group(0) @binding(2) var<storage, read> offsets: array<u32>; // [queries + 1]: where the tokens of each query begin
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [tokens]
@group(0) @binding(4) var<storage, read_write> sums: array<f32>; // [queries, places]

@compute @workgroup_size(WORKGROUP)
fn maxsim_sum(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups) * AT_ONCE + index / WIDTH;
  let query = number % params.queries;
  let place = number / params.queries;
  var sum = 0.0;
  if (place < params.places) {
    for (var token = offsets[query] + index % WIDTH; token < offsets[query + 1u]; token += WIDTH) {
      sum = fma(weights[token], value_of(nearest[place * params.pitch + token]), sum);
    }
  }
  let all = sixteen_sum(index, vec4(sum, 0.0, 0.0, 0.0)).x;
  if (index % WIDTH == 0u && place < params.places) { sums[query * params.places + place] = all; }
}
