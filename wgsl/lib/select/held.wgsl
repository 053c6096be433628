// Elements that a workgroup holds in registers, up to 16 per invocation, and a threshold that a wanted number of them passes.
// Elements are ordered by key, ties by place. No two are equal, so such a threshold always exists.
alias Held = array<vec4<u32>, 4>;

var<workgroup> tallies: array<atomic<u32>, ROUNDS>;
var<workgroup> smallest: atomic<u32>;
var<workgroup> largest: atomic<u32>;

fn nothing_held() -> Held { return Held(vec4(ABSENT), vec4(ABSENT), vec4(ABSENT), vec4(ABSENT)); }

/// Counts this invocation's elements with keys up to `key`. Only the first `vectors` vectors hold elements.
fn keys_up_to(keys: Held, vectors: u32, key: u32) -> u32 {
  var count = 0u;
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) { count += how_many(keys[v] <= vec4(key)); }
  }
  return count;
}

/// Counts this invocation's elements with this key and places up to `place`.
fn places_up_to(keys: Held, places: Held, vectors: u32, key: u32, place: u32) -> u32 {
  var count = 0u;
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) { count += how_many((keys[v] == vec4(key)) & (places[v] <= vec4(place))); }
  }
  return count;
}

/// The sum over the workgroup, in every invocation. Each round has its own tally, so none waits to be cleared.
fn tally(count: u32, round: u32, lanes: Lanes) -> u32 {
  let share = lanes_share(count, lanes);
  if (share > 0u) { atomicAdd(&tallies[round], share); }
  return workgroupUniformLoad(&tallies[round]);
}

/// The smallest and the largest key that the workgroup holds, ABSENT aside.
fn range_of(keys: Held, vectors: u32, lanes: Lanes) -> vec2<u32> {
  workgroupBarrier();
  if (lanes.index == 0u) {
    atomicStore(&smallest, ABSENT);
    atomicStore(&largest, 0u);
  }
  workgroupBarrier();
  var lower = vec4(ABSENT);
  var upper = vec4(0u);
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      lower = min(lower, keys[v]);
      upper = max(upper, select(keys[v], vec4(0u), keys[v] == vec4(ABSENT)));
    }
  }
  let least = lanes_least(min(min(lower.x, lower.y), min(lower.z, lower.w)), lanes);
  let rest = lanes_least(~max(max(upper.x, upper.y), max(upper.z, upper.w)), lanes);
  if (least != ABSENT) { atomicMin(&smallest, least); }
  if (rest != ABSENT) { atomicMax(&largest, ~rest); }
  let first = workgroupUniformLoad(&smallest);
  return vec2(first, workgroupUniformLoad(&largest));
}

/// A threshold that `fewest` to `most` elements pass; if there are no more than `most`, one that all pass. Places are at most
/// `last_place`. Keys and places are each invocation's own; the other arguments are the same in all invocations.
fn threshold_of(
  keys: Held,
  places: Held,
  vectors: u32,
  fewest: u32,
  most: u32,
  last_place: u32,
  lanes: Lanes,
) -> Threshold {
  workgroupBarrier();
  for (var i = lanes.index; i < ROUNDS; i += WORKGROUP) { atomicStore(&tallies[i], 0u); }
  let range = range_of(keys, vectors, lanes);
  let present = tally(keys_up_to(keys, vectors, LAST), 0u, lanes);
  if (present <= most) { return Threshold(LAST, EVERY_PLACE, present); }
  var low = range.x;
  var high = range.y;
  var round = 1u;
  var below = 0u; // elements below `low`
  while (low < high) {
    // Halving the keys ends soon for any data; halving the numbers ends sooner where both signs occur.
    var middle = low + ((high - low) >> 1u);
    if ((round & 1u) == 1u) {
      middle = clamp(key_of(0.5 * value_of(low) + 0.5 * value_of(high)), low, high - 1u);
    }
    let count = tally(keys_up_to(keys, vectors, middle), round, lanes);
    round += 1u;
    if (count < fewest) {
      low = middle + 1u;
      below = count;
    } else {
      high = middle;
      if (count <= most) { return Threshold(middle, EVERY_PLACE, count); }
    }
  }
  // Too many tie with this key: those with the first places pass.
  var first = 0u;
  var last = last_place;
  while (first < last) {
    let middle = first + ((last - first) >> 1u);
    let count = below + tally(places_up_to(keys, places, vectors, low, middle), round, lanes);
    round += 1u;
    if (count < fewest) {
      first = middle + 1u;
    } else {
      last = middle;
      if (count <= most) { return Threshold(low, middle, count); }
    }
  }
  return Threshold(low, last, fewest);
}
