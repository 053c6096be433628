// Finds the key of a rank by its digits of 11 bits, the highest first, with all invocations of a workgroup: counts the keys of
// each digit, then picks the digit that holds the rank. Digits start at bit 21, at bit 10 and, for an exact key, at bit 0.
const BINS = 2048u; // values of a digit
var<workgroup> histogram: array<atomic<u32>, BINS>;
var<workgroup> bins: array<u32, SHORT>;
var<workgroup> picked: vec2<u32>;

fn clear_digits(index: u32) {
  // unroll on hardware
  for (var b = 0u; b < BINS / WORKGROUP; b++) { atomicStore(&histogram[index + b * WORKGROUP], 0u); }
  workgroupBarrier();
}

// Counts the digit at `shift` of a key if its higher digits are those of the prefix.
fn count_digit(key: u32, prefix: u32, shift: u32) {
  // The first digit has none above it, and a shift by 32 is not defined. The last overlaps the second by a bit, which is known.
  let above = select(21u, 10u, shift == 0u);
  if (shift == 21u || (key ^ prefix) >> above == 0u) { atomicAdd(&histogram[(key >> shift) & (BINS - 1u)], 1u); }
}

// Adds the digit at `shift` that holds the rank to the prefix, and subtracts from the rank the elements below that digit.
fn pick_digit(index: u32, found: vec2<u32>, shift: u32) -> vec2<u32> {
  workgroupBarrier();
  var own = 0u;
  // unroll on hardware
  for (var b = 0u; b < BINS / WORKGROUP; b++) { own += atomicLoad(&histogram[index * (BINS / WORKGROUP) + b]); }
  bins[index] = own;
  workgroupBarrier();
  for (var distance = 1u; distance < WORKGROUP; distance <<= 1u) {
    var before = 0u;
    if (index >= distance) { before = bins[index - distance]; }
    workgroupBarrier();
    bins[index] += before;
    workgroupBarrier();
  }
  var below = bins[index] - own;
  if (found.y >= below && found.y < below + own) {
    // unroll on hardware
    for (var b = 0u; b < BINS / WORKGROUP; b++) {
      let bin = index * (BINS / WORKGROUP) + b;
      let count = atomicLoad(&histogram[bin]);
      if (found.y >= below && found.y < below + count) { picked = vec2(found.x | (bin << shift), found.y - below); }
      below += count;
    }
  }
  return workgroupUniformLoad(&picked);
}
