// The rows that may be found. Kernels bind `allowed`, one bit per slot of the index.
override HAS_BITSET: u32 = 0u;

fn is_usable(row: u32) -> bool {
  if (row >= params.rows) { return false; }
  if (HAS_BITSET == 0u) { return true; }
  let slot = params.first_slot + row;
  return ((allowed[slot >> 5u] >> (slot & 31u)) & 1u) == 1u;
}

// Whether a block may have such rows. Its slots lie in up to this many words, which neighbours share at its ends.
const BLOCK_WORDS = BLOCK_ROWS / 32u + 1u;
fn has_usable(block: u32) -> bool {
  if (HAS_BITSET == 0u) { return true; }
  let first = (params.first_slot + block * BLOCK_ROWS) >> 5u;
  var some = 0u;
  for (var i = 0u; i < BLOCK_WORDS; i++) { some |= allowed[first + i]; }
  return some != 0u;
}
