// The rows that may be found. Kernels bind `allowed`, one bit per slot of the index.
override HAS_BITSET: u32 = 0u;

fn is_usable(row: u32) -> bool {
  if (row >= params.rows) { return false; }
  if (HAS_BITSET == 0u) { return true; }
  let slot = params.first_slot + row;
  return ((allowed[slot >> 5u] >> (slot & 31u)) & 1u) == 1u;
}
