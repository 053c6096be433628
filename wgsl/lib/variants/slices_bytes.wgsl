// Slices of quantised vectors for matrices of bytes. Integers are stored with 128 added, which the exchange of a bit takes away.
const DEPTH = 64u; // dimensions of a slice
const GRANULE_VECTORS = 1u; // vectors that hold 16 dimensions
const STEP = PRODUCT / 16u; // vectors that a product takes
alias SliceVector = vec4<f32>;

fn turn_of(index: u32) -> u32 { return 0u; }

fn slice_vector(granule: vec4<u32>, w: u32, turn: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(granule ^ vec4(0x80808080u));
}

fn place_in_granule(w: u32, turn: u32) -> u32 { return w; }
