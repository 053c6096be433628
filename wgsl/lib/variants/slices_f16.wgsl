// Slices of quantised vectors for matrices of f16: integers widen exactly. Sums are f32.
const DEPTH = 32u; // dimensions of a slice
const GRANULE_VECTORS = 4u; // vectors that hold 16 dimensions
const STEP = SIDE / 4u; // vectors that a product takes
alias SliceVector = vec4<f16>;

// Eight rows of a slice lie in different banks, and the next eight in the same ones again: those swap their pairs of vectors.
fn turn_of(index: u32) -> u32 { return (index >> 3u) & 1u; }

// Vector `w` of a granule, where pairs are swapped for `turn` 1.
fn slice_vector(granule: vec4<u32>, w: u32, turn: u32) -> vec4<f16> {
  return widen_integers(select(granule[w], granule[w ^ 1u], turn == 1u));
}

fn place_in_granule(w: u32, turn: u32) -> u32 { return w ^ turn; }
