// What kernels need that score a tile and collect from it at once, without storing scores. The rows of a part share one bound
// of their lengths and one of their residuals, so that a row is described by two numbers. Such a test lets every row pass that
// `collect` would keep (docs/certified-search.md). The few rows that pass are tested again with their own terms.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(5) var<storage, read> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(6) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>; // [queries]
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

// Block number `number` of the dispatch, in the segment. Its number in the index is a multiple of `step` and, where `ratio` is not
// 0, not of `ratio * step`.
fn block_of(number: u32) -> u32 {
  var multiple = params.first + number;
  if (params.ratio != 0u) { multiple += multiple / (params.ratio - 1u) + 1u; }
  return multiple * params.step - params.base;
}

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
  return vec4(one.x - value_of(threshold), one.yzw);
}

// The nearness from which on a row passes, and the factor of scores. `longest` bounds the rows' lengths and residuals.
fn limit_of(query: vec4<f32>, longest: vec2<f32>) -> vec2<f32> {
  return vec2(fma(-query.w, longest.y, fma(-query.z, longest.x, query.x)), query.y);
}

// The nearness of four rows, above the limit. Rows pass that are not below it.
fn nearness(limit: vec2<f32>, score: vec4<f32>, scale: vec4<f32>, bias: vec4<f32>) -> vec4<f32> {
  return fma(vec4(limit.y), scale * score, bias) - vec4(limit.x);
}

// One bit for each of four rows: whether it passes.
fn passing_rows(nearness: vec4<f32>) -> u32 {
  let near = vec4<u32>(nearness >= vec4(0.0));
  return near.x | (near.y << 1u) | (near.z << 2u) | (near.w << 3u);
}

// Puts a row on a query's list, unless its own interval excludes it.
fn keep_row(query: u32, row: u32, score: f32) {
  if (query >= params.queries || !is_usable(row)) { return; }
  let keys = keys_of(query_of(query_terms[query], 0.0), score, row_side(row_terms[row]));
  if (keys.x > thresholds[query]) { return; }
  put(query, atomicAdd(&counts[query], 1u), params.first_slot + row, keys.x, keys.y);
}
