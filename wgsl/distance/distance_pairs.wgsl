// The distance of every query to every row, one invocation per pair, for any dim and stride: four elements at a time, then a
// loop over the remainder. Cosine of vectors that are not normalised takes one pass with three sums.
@group(0) @binding(1) var<storage, read> queries: array<f32>; // [queries, query_stride]
@group(0) @binding(2) var<storage, read> rows: array<f32>; // [rows, row_stride]
@group(0) @binding(3) var<storage, read_write> distances: array<f32>; // [queries, distance_stride]

override METRIC: u32 = 0u;
override ACCUMULATORS: u32 = 1u; // independent sums, up to ACCUMULATORS_MAX
override DIM: u32 = 0u; // elements per vector where the compiler should know them; 0: params.dim

struct Sums { dot: vec4<f32>, query: vec4<f32>, row: vec4<f32>, }

fn query_vector(place: u32) -> vec4<f32> {
  return vec4(queries[place], queries[place + 1u], queries[place + 2u], queries[place + 3u]);
}

fn row_vector(place: u32) -> vec4<f32> {
  return vec4(rows[place], rows[place + 1u], rows[place + 2u], rows[place + 3u]);
}

fn add(sums: Sums, q: vec4<f32>, x: vec4<f32>) -> Sums {
  var result = sums;
  if (METRIC <= PAIRS_L2) {
    let difference = q - x;
    result.dot = fma(difference, difference, sums.dot);
  } else {
    result.dot = fma(q, x, sums.dot);
  }
  if (METRIC == PAIRS_COSINE) {
    result.query = fma(q, q, sums.query);
    result.row = fma(x, x, sums.row);
  }
  return result;
}

@compute @workgroup_size(WORKGROUP)
fn distance_pairs(
  @builtin(global_invocation_id) id: vec3<u32>,
) {
  let row = params.first_row + id.x;
  let query = params.first_query + id.y;
  if (row >= params.rows || query >= params.queries) { return; }
  var dim = params.dim;
  if (DIM > 0u) { dim = DIM; }
  let query_start = query * params.query_stride;
  let row_start = row * params.row_stride;
  var sums: array<Sums, ACCUMULATORS_MAX>;
  let whole = dim & ~3u;
  let stride = 4u * ACCUMULATORS;
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
  let dot = across((sums[0].dot + sums[1].dot) + (sums[2].dot + sums[3].dot));
  var distance = dot;
  var similarity = dot;
  if (METRIC == PAIRS_L2) { distance = sqrt(dot); }
  if (METRIC == PAIRS_COSINE || METRIC == PAIRS_COSINE_OF_UNITS) {
    if (METRIC == PAIRS_COSINE) {
      let query_squared = across((sums[0].query + sums[1].query) + (sums[2].query + sums[3].query));
      let row_squared = across((sums[0].row + sums[1].row) + (sums[2].row + sums[3].row));
      similarity = 0.0;
      if (query_squared > 0.0 && row_squared > 0.0) {
        similarity = dot / (sqrt(query_squared) * sqrt(row_squared));
      }
    }
    similarity = clamp(similarity, -1.0, 1.0);
    distance = 1.0 - similarity;
  }
  if (METRIC == PAIRS_INNER_PRODUCT) { distance = -dot; }
  distances[query * params.distance_stride + row] = select(distance, similarity, params.as_similarity != 0u);
}
