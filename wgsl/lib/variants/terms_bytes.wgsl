// What the exact test takes: terms of the tile's rows and queries, and the queries' thresholds. They lie in the memory of the rows' slices,
// behind pieces of sums, because those that pass would wait for other memory one after the other.
const ROW_TERMS = 256u;
const QUERY_TERMS = ROW_TERMS + TILE;
const THRESHOLDS = QUERY_TERMS + HEIGHT;

fn share_terms(index: u32, of_row: vec4<f32>, of_query: vec4<f32>, threshold: u32) {
  if (is_first_of_row(index)) { row_slice[ROW_TERMS + index] = of_row; }
  if (is_first_of_query(index)) {
    row_slice[QUERY_TERMS + index] = of_query;
    row_slice[THRESHOLDS + index / 4u][index % 4u] = bitcast<f32>(threshold);
  }
}

fn test_sum(query: u32, row: u32, score: f32, place: Place) -> Kept {
  let threshold = bitcast<u32>(row_slice[THRESHOLDS + query / 4u][query % 4u]);
  let of_row = row_slice[ROW_TERMS + row];
  return test_terms(query_number(place, query), row_number(place, row), score, row_slice[QUERY_TERMS + query], of_row, threshold);
}
