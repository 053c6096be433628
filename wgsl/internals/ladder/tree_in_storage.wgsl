// Rung d: a tree instead of one invocation. Neighbours are added, then neighbours of those: eight steps for 256 products.
// The products lie in storage, so every step goes through the caches, and more and more invocations of every subgroup idle.
@group(0) @binding(3) var<storage, read_write> products: array<f32>; // [length]
@group(0) @binding(4) var<storage, read_write> partials: array<f32>; // [workgroups]

@compute @workgroup_size(WORKGROUP)
fn tree_in_storage(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups);
  let place = number * WORKGROUP + index;
  if (place < params.length) { products[place] = a[place] * b[place]; }
  storageBarrier();
  for (var stride = 1u; stride < WORKGROUP; stride *= 2u) {
    // The right neighbour may lie behind the end or in another workgroup.
    if (index % (2u * stride) == 0u && place + stride < params.length) {
      products[place] += products[place + stride];
    }
    storageBarrier();
  }
  if (index == 0u && place < params.length) { partials[number] = products[place]; }
}
