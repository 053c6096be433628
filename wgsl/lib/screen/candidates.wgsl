// Candidate lists. Kernels bind `candidates`, [3, lists, capacity]: slots, lower keys, upper keys.
fn put(list: u32, place: u32, slot: u32, lower: u32, upper: u32) {
  // A count above the capacity tells `tighten` that rows were dropped.
  if (place < params.capacity) {
    let entry = list * params.capacity + place;
    candidates[entry] = slot;
    candidates[params.plane + entry] = lower;
    candidates[2u * params.plane + entry] = upper;
  }
}
