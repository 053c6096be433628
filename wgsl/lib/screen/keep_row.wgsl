// Puts rows on the lists of queries, or with PAIRS = 1 both rows of a pair on the list of the other. A file in front declares the terms of
// queries, their lists and the thresholds of these, and `next_place`, which counts one more candidate of a list.
struct Kept {
  passes: bool,
  list: u32,
  slot: u32,
  ends: vec2<u32>, // lower and upper key
}

// Whether a row stays: if it is there, and its interval does not exclude it.
fn test_row(query: u32, row: u32, score: f32) -> Kept {
  return test_terms(query, row, score, query_terms_of(query), row_terms[row], threshold_of(list_of(query)));
}

// The same with terms at hand.
fn test_terms(query: u32, row: u32, score: f32, of_query: vec4<f32>, of_row: vec4<f32>, threshold: u32) -> Kept {
  if (query >= params.queries || !is_usable(row)) { return Kept(); }
  let ends = keys_of(query_of(of_query, 0.0), score, row_side(of_row));
  let list = list_of(query);
  let slot = params.first_slot + row;
  if (PAIRS == 1u) {
    // Two rows meet twice where queries meet themselves.
    return Kept(slot > list && ends.x <= max(threshold, threshold_of(slot)), list, slot, ends);
  }
  return Kept(ends.x <= threshold, list, slot, ends);
}

// Whether a list takes a row that passed: of a pair, one of both may not.
fn takes(kept: Kept, list: u32) -> bool {
  if (PAIRS == 1u) { return kept.passes && kept.ends.x <= threshold_of(list); }
  return kept.passes;
}

fn keep_row(query: u32, row: u32, score: f32) {
  let kept = test_row(query, row, score);
  if (takes(kept, kept.list)) { put(kept.list, next_place(kept.list), kept.slot, kept.ends.x, kept.ends.y); }
  if (PAIRS == 1u) {
    if (takes(kept, kept.slot)) { put(kept.slot, next_place(kept.slot), kept.list, kept.ends.x, kept.ends.y); }
  }
}
