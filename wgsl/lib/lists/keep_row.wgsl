// Puts a row on a query's list, unless its interval excludes it.
fn keep_row(query: u32, row: u32, score: f32) {
  if (query >= params.queries || !is_usable(row)) { return; }
  let keys = keys_of(query_of(query_terms_of(query), 0.0), score, row_side(row_terms[row]));
  if (keys.x > threshold_of(query)) { return; }
  put(query, atomicAdd(&states[query], 1u), params.first_slot + row, keys.x, keys.y);
}
