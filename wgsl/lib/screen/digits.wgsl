// Finds the key of a rank, with all invocations of a workgroup.
//
// `key_of_rank` compares one key of each invocation with all others: enough for a low rank, where each invocation gives the least of its
// keys. At least rank + 1 of all keys are not above what it finds. For other ranks, digits of 11 bits tell, the highest first: count the
// keys of each digit, then pick the digit that holds the rank. Digits start at bit 21, at bit 10 and, for an exact key, at bit 0.
const HALF = WORKGROUP / 2u;
const BINS = 2048u; // values of a digit
var<workgroup> histogram: array<atomic<u32>, BINS>;
var<workgroup> bins: array<u32, SHORT>;
var<workgroup> picked: array<atomic<u32>, 2>;

// Invocations write one word each, which a vector in memory does not allow.
fn four_bins(first: u32) -> vec4<u32> { return vec4(bins[first], bins[first + 1u], bins[first + 2u], bins[first + 3u]); }

// The key of a rank below WORKGROUP among one key of each invocation, or for a low rank of each two: the largest that no more than `rank`
// keys are below. Behind the first `count` invocations keys are ABSENT.
fn key_of_rank(index: u32, own: u32, count: u32, rank: u32) -> u32 {
  bins[index] = own;
  if (index == 0u) { atomicStore(&picked[0], select(0u, ABSENT, rank == 0u)); }
  workgroupBarrier();
  var below = vec4(0u);
  if (rank == 0u) {
    atomicMin(&picked[0], own);
  } else if (rank < 32u && WORKGROUP == 256u) {
    // The lower one of two each: a quarter of the comparisons.
    if (index < HALF) {
      let lower = min(own, bins[index + HALF]);
      for (var v = 0u; v < HALF; v += 4u) { below += vec4<u32>(min(four_bins(v), four_bins(v + HALF)) < vec4(lower)); }
      if (below.x + below.y + below.z + below.w <= rank) { atomicMax(&picked[0], lower); }
    }
  } else {
    for (var v = 0u; v < count; v += 4u) { below += vec4<u32>(four_bins(v) < vec4(own)); }
    if (below.x + below.y + below.z + below.w <= rank) { atomicMax(&picked[0], own); }
  }
  return workgroupUniformLoad(&picked[0]);
}

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
      if (found.y >= below && found.y < below + count) {
        atomicStore(&picked[0], found.x | (bin << shift));
        atomicStore(&picked[1], found.y - below);
      }
      below += count;
    }
  }
  return vec2(workgroupUniformLoad(&picked[0]), workgroupUniformLoad(&picked[1]));
}
