// One step of radix selection by 256 invocations: finds which of 256 digits holds the element of a given rank.
var<workgroup> histogram: array<atomic<u32>, 256>;
var<workgroup> digit_ends: array<u32, 256>;
var<workgroup> picked: vec3<u32>;

fn histogram_clear(index: u32) {
  workgroupBarrier();
  atomicStore(&histogram[index], 0u);
  workgroupBarrier();
}

/// The digit of the element with rank `rank` (from 0), the number of elements below that digit, and the number that have it.
fn histogram_pick(index: u32, rank: u32) -> vec3<u32> {
  workgroupBarrier();
  let own = atomicLoad(&histogram[index]);
  digit_ends[index] = own;
  workgroupBarrier();
  for (var distance = 1u; distance < 256u; distance <<= 1u) {
    var before = 0u;
    if (index >= distance) { before = digit_ends[index - distance]; }
    workgroupBarrier();
    digit_ends[index] += before;
    workgroupBarrier();
  }
  let end = digit_ends[index];
  if (rank < end && rank >= end - own) { picked = vec3(index, end - own, own); }
  return workgroupUniformLoad(&picked);
}
