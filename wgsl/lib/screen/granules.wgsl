// Where the granules of a quantised vector start: vectors lie in blocks of BLOCK_ROWS, granule by granule.
fn granules_of(vector: u32) -> u32 {
  return (vector >> BLOCK_SHIFT) * params.granules * BLOCK_ROWS + (vector & (BLOCK_ROWS - 1u));
}
