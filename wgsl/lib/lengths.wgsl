// Lengths of rows that are sorted: all the same, or those of lists. A list that did not hold what was wanted was filled again,
// with as many elements as the row has results.
fn length_of(row: u32) -> u32 {
  if (LISTS == 0u) { return params.length; }
  let listed = states[row * 4u + 2u];
  if (holds_wanted(states[row * 4u], states[row * 4u + 1u], listed)) { return listed; }
  return counts[row];
}
