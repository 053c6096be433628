// A sample of a long row, held in registers. One vector of four elements is taken from each stratum of equal length, at a
// random place, so that ordered rows are sampled as well as others. Of elements from distant strata only the smallest is held:
// for small ranks that acts as a larger sample.
struct Sample { keys: Held, places: Held, }

const TURNS = REGISTERS / 32u; // whose loads are in flight together

/// Samples the row that starts at `begin`: HELD vectors per invocation, 1 or 4. Its whole vectors, at least one, are those from
/// `from_vector` to `to_vector`.
fn sample(begin: u32, from_vector: u32, to_vector: u32, index: u32) -> Sample {
  let available = to_vector - from_vector;
  let width = f32(available) / f32(WORKGROUP * HELD * params.turns);
  var keys = nothing_held();
  var places = nothing_held();
  for (var turn = 0u; turn < params.turns; turn += TURNS) {
    // Several turns at a time: all loads come before the first use.
    var vectors = array<array<u32, TURNS>, 4>();
    var words = array<array<vec4<u32>, TURNS>, 4>();
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      // unroll on hardware
      for (var t = 0u; t < TURNS; t++) {
        if (v < HELD && turn + t < params.turns) {
          let i = ((turn + t) * HELD + v) * WORKGROUP + index;
          vectors[v][t] = from_vector + min(u32((f32(i) + scattered(i)) * width), available - 1u);
          words[v][t] = values[vectors[v][t]];
        }
      }
    }
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      // unroll on hardware
      for (var t = 0u; t < TURNS; t++) {
        if (v < HELD && turn + t < params.turns) {
          // Places rise from turn to turn, so the first of equal keys stays.
          let next = exact_keys(words[v][t]);
          let better = next < keys[v];
          keys[v] = select(keys[v], next, better);
          places[v] = select(places[v], vec4(vectors[v][t] * 4u - begin) + vec4(0u, 1u, 2u, 3u), better);
        }
      }
    }
  }
  return Sample(keys, places);
}
