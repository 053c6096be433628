// A test of scores before the exact one. The rows of a part share one bound of their lengths and one of their residuals, so that
// a row is described by two numbers. The test lets every row pass that `collect` would keep (docs/certified-search.md). The few
// rows that pass are tested again with their own terms.
const FAR = 1e37; // beyond every nearness, and far from overflow

// A row in the coarse test: its scale, its bias with the sign of a nearness, its length and its residual.
fn coarse_row(row: u32, terms: vec4<f32>) -> vec4<f32> {
  // Nothing is as near as a row that may not be found is far.
  if (!is_usable(row)) { return vec4(0.0, -FAR, 0.0, 0.0); }
  let side = row_side(terms);
  return vec4(side.x, slack_of(side) - side.w, side.yz);
}

// A query in the coarse test: its base minus its threshold, the factor of its scores, and those of lengths and residuals.
fn coarse_query(query: u32, terms: vec4<f32>, threshold: u32) -> vec4<f32> {
  if (query >= params.queries) { return vec4(FAR, 0.0, 0.0, 0.0); }
  let one = query_of(terms, 0.0).one;
  if (FORM == FORM_JACCARD) {
    // At a distance of up to `most`, the bits that both have, times this factor, are no fewer than those of both vectors together.
    let most = value_of(threshold) + 4.0 * params.margin;
    if (most >= 1.0) { return vec4(-0.5 * FAR, 0.0, 0.0, 0.0); }
    return vec4(terms.w, (2.0 - most) / (1.0 - most), 0.0, 0.0);
  }
  return vec4(one.x - value_of(threshold), one.yzw);
}

// The nearness from which on a row passes, and the factor of scores. `longest` bounds the rows' lengths and residuals.
fn limit_of(query: vec4<f32>, longest: vec2<f32>) -> vec2<f32> {
  return vec2(fma(-query.w, longest.y, fma(-query.z, longest.x, query.x)), query.y);
}

// The nearness of four rows. Rows pass that are not below the limit.
fn nearness(factor: f32, score: vec4<f32>, scale: vec4<f32>, bias: vec4<f32>) -> vec4<f32> {
  return fma(vec4(factor), scale * score, bias);
}

// One bit for each of four rows: whether it passes.
fn passing_rows(limit: f32, nearness: vec4<f32>) -> u32 {
  let near = vec4<u32>(nearness >= vec4(limit));
  return near.x | (near.y << 1u) | (near.z << 2u) | (near.w << 3u);
}
