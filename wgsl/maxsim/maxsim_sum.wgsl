// Adds up the largest similarities of the tokens of each query, by their weights: a number for each query and document.
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
  let number = workgroup_number(workgroup, workgroups) * WORKGROUP + index;
  let query = number / params.places;
  let place = number % params.places;
  if (query >= params.queries) { return; }
  var sum = 0.0;
  for (var token = offsets[query]; token < offsets[query + 1u]; token++) {
    sum = fma(weights[token], value_of(nearest[place * params.pitch + token]), sum);
  }
  sums[number] = sum;
}
