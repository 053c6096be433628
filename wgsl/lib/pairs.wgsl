// The value of a pair, from its sum: of products of elements or, up to PAIRS_DIFFERENCES, of squared differences.
override METRIC: u32 = 0u;

// `scale` is 1 / (|q| |x|) for cosine, and otherwise unused.
fn pair_value(sum: f32, scale: f32) -> f32 {
  if (METRIC == PAIRS_L2_SQUARED) { return sum; }
  if (METRIC == PAIRS_L2) { return sqrt(sum); }
  var similarity = sum;
  var distance = -sum;
  if (METRIC == PAIRS_COSINE) { similarity *= scale; }
  if (METRIC != PAIRS_INNER_PRODUCT) {
    similarity = clamp(similarity, -1.0, 1.0);
    distance = 1.0 - similarity;
  }
  return select(distance, similarity, params.as_similarity != 0u);
}
