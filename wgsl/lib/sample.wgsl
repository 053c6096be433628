// A sample of a long row, and which of its ranks is the threshold that lets somewhat more than k of the row pass. Vectors of
// four elements are taken from strata of equal length, at a random place of each, so that rows in some order are sampled as well
// as others. Of elements from distant strata only the smallest is held: for small ranks a sample so much larger.
struct Sample { keys: Held, places: Held, }

/// A number in [0, 1) that looks random.
fn scattered(i: u32) -> f32 {
  var x = i * 0x9e3779b9u;
  x = (x ^ (x >> 16u)) * 0x7feb352du;
  x = (x ^ (x >> 15u)) * 0x846ca68bu;
  return f32((x ^ (x >> 16u)) >> 8u) * 5.9604645e-8;
}

/// One vector from each stratum `stratum + t * step`; of each element the smallest of all `turns`.
fn sampled(begin: u32, from_vector: u32, to_vector: u32, stratum: u32, step: u32) -> array<vec4<u32>, 2> {
  let available = to_vector - from_vector;
  let width = f32(available) / f32(step * params.turns);
  var keys = vec4(ABSENT);
  var places = vec4(EVERY_PLACE);
  for (var turn = 0u; turn < params.turns; turn += 1u) {
    let i = stratum + turn * step;
    let vector = from_vector + min(u32((f32(i) + scattered(i)) * width), available - 1u);
    let next = keys_at(vector);
    let next_places = vec4(vector * 4u - begin) + vec4(0u, 1u, 2u, 3u);
    // Turns go up the row, so that of equal keys the first stays.
    let better = next < keys;
    keys = select(keys, next, better);
    places = select(places, next_places, better);
  }
  return array(keys, places);
}

/// Holds `params.held` vectors an invocation, 1 or 4. The row has at least one whole vector, from `from_vector` to `to_vector`.
fn sample(begin: u32, from_vector: u32, to_vector: u32, index: u32) -> Sample {
  let nothing = nothing_held();
  var held = Sample(nothing, nothing);
  let step = WORKGROUP * params.held;
  let a = sampled(begin, from_vector, to_vector, index, step);
  held.keys.a = a[0];
  held.places.a = a[1];
  if (params.held > 1u) {
    let b = sampled(begin, from_vector, to_vector, index + WORKGROUP, step);
    let c = sampled(begin, from_vector, to_vector, index + 2u * WORKGROUP, step);
    let d = sampled(begin, from_vector, to_vector, index + 3u * WORKGROUP, step);
    held.keys.b = b[0];
    held.places.b = b[1];
    held.keys.c = c[0];
    held.places.c = c[1];
    held.keys.d = d[0];
    held.places.d = d[1];
  }
  return held;
}
