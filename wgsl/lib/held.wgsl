// Elements that a workgroup holds in registers, up to 16 an invocation, and the threshold that lets as many of them pass as are
// wanted. Elements are ordered by key, ties by place, so no two are equal and there is always such a threshold.
alias Held = array<vec4<u32>, 4>;

// A bisection takes at most two rounds for each bit of a key and one for each of a place.
const ROUNDS = 128u;

var<workgroup> tallies: array<atomic<u32>, ROUNDS>;
var<workgroup> smallest: atomic<u32>;
var<workgroup> largest: atomic<u32>;

fn nothing_held() -> Held { return Held(vec4(ABSENT), vec4(ABSENT), vec4(ABSENT), vec4(ABSENT)); }

/// How many of this invocation's elements have a key up to `key`. Only the first `vectors` vectors hold some.
fn keys_up_to(keys: Held, vectors: u32, key: u32) -> u32 {
  var count = 0u;
  // unroll
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) { count += how_many(keys[v] <= vec4(key)); }
  }
  return count;
}

/// How many of those with this key have a place up to `place`.
fn places_up_to(keys: Held, places: Held, vectors: u32, key: u32, place: u32) -> u32 {
  var count = 0u;
  // unroll
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) { count += how_many((keys[v] == vec4(key)) & (places[v] <= vec4(place))); }
  }
  return count;
}

/// The sum over the workgroup, in every invocation. No two rounds share a tally, so none waits to be cleared.
fn tally(count: u32, round: u32, lanes: Lanes) -> u32 {
  let share = lanes_share(count, lanes);
  if (share > 0u) { atomicAdd(&tallies[round], share); }
  return workgroupUniformLoad(&tallies[round]);
}

/// The smallest and the largest key of all that are held and not ABSENT.
fn range_of(keys: Held, vectors: u32, lanes: Lanes) -> vec2<u32> {
  workgroupBarrier();
  if (lanes.index == 0u) {
    atomicStore(&smallest, ABSENT);
    atomicStore(&largest, 0u);
  }
  workgroupBarrier();
  var lower = vec4(ABSENT);
  var upper = vec4(0u);
  // unroll
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

/// A threshold that `fewest` to `most` elements pass; where no more than `most` are there, one that all of them pass. Places
/// are up to `last_place`. Keys and places are each invocation's own, the other arguments the same in all.
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
    // By halves of the keys it ends soon whatever they are, by halves of the numbers it ends sooner where both signs occur.
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
  // Too many tie with this key: the first places of them.
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
