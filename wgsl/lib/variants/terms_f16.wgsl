// The exact test of sums of f16 matrices takes the terms of rows and queries from where they lie.
fn share_terms(index: u32, of_row: vec4<f32>, of_query: vec4<f32>, threshold: u32) {}

fn test_sum(query: u32, row: u32, score: f32, place: Place) -> Kept {
  return test_row(query_number(place, query), row_number(place, row), score);
}
