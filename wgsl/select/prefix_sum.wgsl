// Offsets of a CSR layout: for each count the sum of those before it, each cut to a limit; the last offset is the total. One
// workgroup walks over all counts, four per invocation at a time.
@group(0) @binding(1) var<storage, read> counts: array<u32>; // [count]
@group(0) @binding(2) var<storage, read_write> offsets: array<u32>; // [count + 1]

var<workgroup> sums: array<u32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn prefix_sum(@builtin(local_invocation_index) index: u32) {
  var carry = 0u;
  for (var start = 0u; start < params.count; start += 4u * WORKGROUP) {
    let first = start + index * 4u;
    var own = vec4<u32>();
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      if (first + i < params.count) { own[i] = min(counts[first + i], params.limit); }
    }
    own.y += own.x;
    own.z += own.y;
    own.w += own.z;
    sums[index] = own.w;
    workgroupBarrier();
    for (var distance = 1u; distance < WORKGROUP; distance <<= 1u) {
      var before = 0u;
      if (index >= distance) { before = sums[index - distance]; }
      workgroupBarrier();
      sums[index] += before;
      workgroupBarrier();
    }
    let base = carry + sums[index] - own.w;
    if (first < params.count) { offsets[first] = base; }
    if (first + 1u < params.count) { offsets[first + 1u] = base + own.x; }
    if (first + 2u < params.count) { offsets[first + 2u] = base + own.y; }
    if (first + 3u < params.count) { offsets[first + 3u] = base + own.z; }
    carry += sums[WORKGROUP - 1u];
    workgroupBarrier();
  }
  if (index == 0u) { offsets[params.count] = carry; }
}
