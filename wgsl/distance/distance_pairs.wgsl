// The distance of every query to every row, one invocation per pair, for any dim and stride: four elements at a time, then a
// loop over the remainder. Cosine of vectors that are not normalised takes one pass with three sums. The order of a pair's
// additions depends on the dim alone.
@group(0) @binding(1) var<storage, read> queries: array<f32>; // [queries, query_stride]
@group(0) @binding(2) var<storage, read> rows: array<f32>; // [rows, row_stride]
@group(0) @binding(3) var<storage, read_write> distances: array<f32>; // [queries, distance_stride]

override ACCUMULATORS: u32 = 1u; // independent sums, up to ACCUMULATORS_MAX; 0: one, with its rounding errors beside it

struct Sums { dot: vec4<f32>, query: vec4<f32>, row: vec4<f32>, }

fn query_vector(place: u32) -> vec4<f32> {
  return vec4(queries[place], queries[place + 1u], queries[place + 2u], queries[place + 3u]);
}

fn row_vector(place: u32) -> vec4<f32> {
  return vec4(rows[place], rows[place + 1u], rows[place + 2u], rows[place + 3u]);
}

fn add(sums: Sums, q: vec4<f32>, x: vec4<f32>) -> Sums {
  var result = sums;
  if (METRIC <= PAIRS_DIFFERENCES) {
    let difference = q - x;
    result.dot = fma(difference, difference, sums.dot);
  } else {
    result.dot = fma(q, x, sums.dot);
  }
  if (METRIC == PAIRS_DIVIDED) {
    result.query = fma(q, q, sums.query);
    result.row = fma(x, x, sums.row);
  }
  return result;
}

// The sums of a pair: of products or squared differences, and for cosine of both vectors' squares.
fn plain_sums(query_start: u32, row_start: u32, dim: u32) -> vec3<f32> {
  var sums: array<Sums, ACCUMULATORS_MAX>;
  let whole = dim & ~3u;
  let stride = 4u * max(ACCUMULATORS, 1u);
  var i = 0u;
  for (; i + stride <= whole; i += stride) {
    // unroll
    for (var a = 0u; a < ACCUMULATORS_MAX; a++) {
      if (a < ACCUMULATORS) {
        sums[a] = add(sums[a], query_vector(query_start + i + 4u * a), row_vector(row_start + i + 4u * a));
      }
    }
  }
  for (; i < whole; i += 4u) {
    sums[0] = add(sums[0], query_vector(query_start + i), row_vector(row_start + i));
  }
  for (; i < dim; i++) {
    sums[0] = add(sums[0], vec4(queries[query_start + i], 0.0, 0.0, 0.0), vec4(rows[row_start + i], 0.0, 0.0, 0.0));
  }
  return vec3(
    across((sums[0].dot + sums[1].dot) + (sums[2].dot + sums[3].dot)),
    across((sums[0].query + sums[1].query) + (sums[2].query + sums[3].query)),
    across((sums[0].row + sums[1].row) + (sums[2].row + sums[3].row)),
  );
}

// A sum, and what its additions and products rounded off.
struct Kept { sum: vec4<f32>, error: vec4<f32>, }

struct KeptSums { dot: Kept, query: Kept, row: Kept, }

fn keep(kept: Kept, a: vec4<f32>, b: vec4<f32>) -> Kept {
  let term = opaque(a * b);
  let sum = opaque(kept.sum + term);
  return Kept(sum, kept.error + (product_rounded_off(a, b, term) + rounded_off(kept.sum, term, sum)));
}

fn keep_all(sums: KeptSums, q: vec4<f32>, x: vec4<f32>) -> KeptSums {
  var result = sums;
  if (METRIC <= PAIRS_DIFFERENCES) {
    // (d + e)^2 = d d + 2 d e, and e e is too small to matter.
    let difference = opaque(q - x);
    result.dot = keep(sums.dot, difference, difference);
    result.dot.error += 2.0 * difference * rounded_off(q, -x, difference);
  } else {
    result.dot = keep(sums.dot, q, x);
  }
  if (METRIC == PAIRS_DIVIDED) {
    result.query = keep(sums.query, q, q);
    result.row = keep(sums.row, x, x);
  }
  return result;
}

fn total(kept: Kept) -> f32 {
  let left = vec4(kept.sum.xz, 0.0, 0.0);
  let right = vec4(kept.sum.yw, 0.0, 0.0);
  let pair = opaque(left + right);
  let pair_error = rounded_off(left, right, pair);
  let both = opaque(vec4(pair.x + pair.y));
  let both_error = rounded_off(vec4(pair.x), vec4(pair.y), both);
  return both.x + (across(kept.error) + (pair_error.x + pair_error.y + both_error.x));
}

fn compensated_sums(query_start: u32, row_start: u32, dim: u32) -> vec3<f32> {
  var sums: KeptSums;
  let whole = dim & ~3u;
  var i = 0u;
  for (; i < whole; i += 4u) {
    sums = keep_all(sums, query_vector(query_start + i), row_vector(row_start + i));
  }
  for (; i < dim; i++) {
    sums = keep_all(sums, vec4(queries[query_start + i], 0.0, 0.0, 0.0), vec4(rows[row_start + i], 0.0, 0.0, 0.0));
  }
  return vec3(total(sums.dot), total(sums.query), total(sums.row));
}

@compute @workgroup_size(WORKGROUP)
fn distance_pairs(
  @builtin(global_invocation_id) id: vec3<u32>,
) {
  let row = params.first_row + id.x;
  let query = params.first_query + id.y;
  if (row >= params.rows || query >= params.queries) { return; }
  let dim = params.dim;
  var sums: vec3<f32>;
  if (ACCUMULATORS == 0u) {
    sums = compensated_sums(query * params.query_stride, row * params.row_stride, dim);
  } else {
    sums = plain_sums(query * params.query_stride, row * params.row_stride, dim);
  }
  var scale = 0.0;
  if (METRIC == PAIRS_DIVIDED && sums.y > 0.0 && sums.z > 0.0) { scale = 1.0 / (sqrt(sums.y) * sqrt(sums.z)); }
  distances[query * params.distance_stride + row] = pair_value(sums.x, scale);
}
