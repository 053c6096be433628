// Candidate lists, and the rows that may be on them. Kernels bind `allowed`, one bit per slot of the index, and `candidates`,
// [3, queries, capacity]: slots, lower keys, upper keys.
override HAS_BITSET: u32 = 0u;

fn is_usable(row: u32) -> bool {
  if (row >= params.rows) { return false; }
  if (HAS_BITSET == 0u) { return true; }
  let slot = params.first_slot + row;
  return ((allowed[slot >> 5u] >> (slot & 31u)) & 1u) == 1u;
}

fn put(query: u32, place: u32, slot: u32, lower: u32, upper: u32) {
  // A count above the capacity tells `tighten` that rows were dropped.
  if (place < params.capacity) {
    let entry = query * params.capacity + place;
    candidates[entry] = slot;
    candidates[params.plane + entry] = lower;
    candidates[2u * params.plane + entry] = upper;
  }
}
