// The interval of a score, which holds the true distance and the one that `refine` will report (docs/certified-search.md).
// A vector is described by its terms: scale, length, residual, bias.

override FORM: u32 = 0u;

// A vector's terms: its scale, a bound of its length, a bound of its residual's length, and its own part of the distance.
fn terms_of(pair: vec4<f32>) -> vec4<f32> {
  switch (FORM) {
    case FORM_L2: { return vec4(1.0, sqrt(pair.x), 0.0, pair.x); }
    case FORM_INNER_PRODUCT: { return vec4(1.0, sqrt(pair.x), 0.0, 0.0); }
    case FORM_COSINE: { return vec4(pair.y, 0.0, 0.0, 0.0); }
    default: { return pair; }
  }
}

// A query's part of its intervals. The lower end is base + floor_x - along * length - across * residual - factor * (scale *
// score), where floor_x is the row's bias minus its slack. The upper end lies twice the margin above it.
struct Query {
  one: vec4<f32>, // base (without the query's slack), factor, along, across
  two: vec4<f32>, // threshold, the query's slack
}
fn query_of(terms: vec4<f32>, threshold: f32) -> Query {
  let reach = params.margin * (terms.y + params.centre_length);
  var base = 0.0;
  var factor = 1.0;
  var along = 0.0;
  var across = 0.0;
  var slack = params.margin_floor;
  switch (FORM) {
    case FORM_DIRECT: { factor = -(1.0 - params.margin); }
    case FORM_L2: {
      base = terms.w;
      factor = 2.0;
      along = 2.0 * params.margin * terms.y;
      slack += params.margin * terms.w;
    }
    case FORM_INNER_PRODUCT: { along = reach; }
    case FORM_COSINE: {
      base = 1.0;
      factor = terms.x;
      slack += params.margin;
    }
    case FORM_QUANTIZED_L2, FORM_HAMMING: {
      base = terms.w;
      factor = 2.0 * terms.x;
      along = 2.0 * terms.z;
      across = 2.0 * (terms.y + terms.z);
      slack += params.margin * terms.y * terms.y;
    }
    case FORM_JACCARD: {
      // The slack comes off the quotient.
      slack += params.margin;
      base = terms.w + slack;
    }
    default: {
      base = select(0.0, 1.0, FORM == FORM_QUANTIZED_COSINE) - (terms.w - params.centre_squared);
      factor = terms.x;
      along = terms.z + reach;
      across = terms.y + terms.z;
      slack += reach * params.centre_length;
    }
  }
  return Query(vec4(base - slack, factor, along, across), vec4(threshold, slack, 0.0, 0.0));
}

// A row's terms with the sign that intervals use.
fn row_side(terms: vec4<f32>) -> vec4<f32> {
  // Products with the centre are part of the similarity.
  if (FORM >= FORM_QUANTIZED_INNER_PRODUCT) { return vec4(terms.xyz, -terms.w); }
  return terms;
}

fn slack_of(terms: vec4<f32>) -> f32 {
  if (FORM == FORM_L2) { return params.margin * terms.w; }
  if (FORM == FORM_QUANTIZED_L2) { return params.margin * terms.y * terms.y; }
  return 0.0;
}

fn lower_end(
  side: Query,
  score: vec4<f32>,
  scale: vec4<f32>,
  length: vec4<f32>,
  residual: vec4<f32>,
  floor_x: vec4<f32>,
) -> vec4<f32> {
  let one = side.one;
  if (FORM == FORM_DIRECT) { return fma(vec4(-one.y), score, vec4(one.x)); }
  if (FORM == FORM_JACCARD) {
    // Bits of either are those of both vectors less those that they share.
    let either = floor_x + vec4(one.x) - score;
    return select(vec4(1.0), (either - score) / either, score > vec4(0.0)) - side.two.y;
  }
  var rest = fma(vec4(-one.z), length, floor_x);
  if (FORM >= FORM_QUANTIZED) { rest = fma(vec4(-one.w), residual, rest); }
  // The row's scale first: the product of the two scales may be subnormal where that of all three factors is not.
  return fma(vec4(-one.y), scale * score, rest + vec4(one.x));
}

// Half the width of the intervals.
fn margin_of(side: Query, score: vec4<f32>, length: vec4<f32>, residual: vec4<f32>, slack: vec4<f32>) -> vec4<f32> {
  if (FORM == FORM_DIRECT) { return score * params.margin + side.two.y; }
  if (FORM == FORM_JACCARD) { return vec4(side.two.y); }
  return side.one.z * length + side.one.w * residual + (slack + side.two.y);
}

// The keys of both ends, from a row's terms with their sign.
fn keys_of(side: Query, score: f32, terms: vec4<f32>) -> vec2<u32> {
  let slack = slack_of(terms);
  let lower = lower_end(side, vec4(score), vec4(terms.x), vec4(terms.y), vec4(terms.z), vec4(terms.w - slack)).x;
  let margin = margin_of(side, vec4(score), vec4(terms.y), vec4(terms.z), vec4(slack)).x;
  return vec2(key_of(lower), key_of(lower + 2.0 * margin));
}
