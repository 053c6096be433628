// Puts rows on the lists of queries. A file in front declares the terms and thresholds of queries, and `next_place`, which counts one
// more candidate of a query.
struct Kept {
  passes: bool,
  query: u32,
  slot: u32,
  ends: vec2<u32>, // lower and upper key
}

// Whether a row stays: if it is there, and its interval does not exclude it.
fn test_row(query: u32, row: u32, score: f32) -> Kept {
  return test_terms(query, row, score, query_terms_of(query), row_terms[row], threshold_of(query));
}

// The same with terms at hand.
fn test_terms(query: u32, row: u32, score: f32, of_query: vec4<f32>, of_row: vec4<f32>, threshold: u32) -> Kept {
  if (query >= params.queries || !is_usable(row)) { return Kept(); }
  let ends = keys_of(query_of(of_query, 0.0), score, row_side(of_row));
  return Kept(ends.x <= threshold, query, params.first_slot + row, ends);
}

fn keep_row(query: u32, row: u32, score: f32) {
  let kept = test_row(query, row, score);
  if (kept.passes) { put(query, next_place(query), kept.slot, kept.ends.x, kept.ends.y); }
}
