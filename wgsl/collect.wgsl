// Which rows can still be among the k nearest? A score with its bound of error gives an interval that holds the true
// distance and the one `rescore` will report; a row is kept unless its lower end lies above the query's threshold.
// An invocation owns four rows, keeps what it needs of them in registers, and loops over queries.
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>; // [queries, columns]
@group(0) @binding(2) var<storage, read> row_norms: array<vec2<f32>>; // [rows]: squared, inverse
@group(0) @binding(3) var<storage, read> query_norms: array<vec2<f32>>; // [queries]: squared, inverse
@group(0) @binding(4) var<storage, read> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(5) var<storage, read> allowed: array<u32>; // a bit a slot of the index, where HAS_BITSET = 1
@group(0) @binding(6) var<storage, read_write> counts: array<atomic<u32>>; // [queries]
@group(0) @binding(7) var<storage, read_write> lists: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

override FORM: u32 = 0u; // 0: squared L2 itself, 1: squared L2 from a dot product, 2: inner product, 3: cosine
override HAS_BITSET: u32 = 0u;

const QUERIES = 32u; // queries a workgroup

@compute @workgroup_size(256)
fn collect(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  // Blocks of this round: every round_step-th of the whole chunk, without those of the rounds before.
  let block = params.round_start + (workgroup.x * 8u + index / 32u) * params.round_step;
  if (block >= params.blocks) { return; }
  let number = (params.column_first >> 7u) + block;
  if (params.round_skip != 0u && (number & (params.round_skip - 1u)) == 0u) { return; }
  let column = params.column_first + block * 128u + index % 32u * 4u;
  let row = (params.block_first + block * params.block_step) * 128u + index % 32u * 4u;

  var usable = vec4(row, row + 1u, row + 2u, row + 3u) < vec4(params.rows);
  var squared: vec4<f32>;
  var inverse: vec4<f32>;
  // unroll
  for (var r = 0u; r < 4u; r++) {
    let norms = row_norms[row + r];
    squared[r] = norms.x;
    inverse[r] = norms.y;
    if (HAS_BITSET == 1u) {
      let slot = params.first_slot + row + r;
      usable[r] = usable[r] && ((allowed[slot >> 5u] >> (slot & 31u)) & 1u) == 1u;
    }
  }
  let norm = sqrt(squared);

  let first = workgroup.y * QUERIES;
  let end = min(first + QUERIES, params.queries);
  for (var query = first; query < end; query++) {
    let score = scores[(query * params.columns + column) >> 2u];
    let query_norm = query_norms[query];
    var value: vec4<f32>;
    var margin: vec4<f32>;
    switch (FORM) {
      case 0u: {
        value = score;
        margin = score * params.margin;
      }
      case 1u: {
        let both = squared + query_norm.x;
        value = both - 2.0 * score;
        margin = (both + 2.0 * sqrt(query_norm.x) * norm) * params.margin;
      }
      case 2u: {
        value = -score;
        margin = sqrt(query_norm.x) * norm * params.margin;
      }
      default: {
        value = 1.0 - score * (query_norm.y * inverse);
        margin = vec4(params.margin);
      }
    }
    margin += params.margin_floor;
    let lower = value - margin;
    let near = lower <= vec4(value_of(thresholds[query]));
    if (any(near & usable)) {
      let upper = value + margin;
      // unroll
      for (var r = 0u; r < 4u; r++) {
        if (near[r] && usable[r]) {
          let place = atomicAdd(&counts[query], 1u);
          // A count above the capacity tells `tighten` that rows were lost.
          if (place < params.capacity) {
            let entry = query * params.capacity + place;
            lists[entry] = params.first_slot + row + r;
            lists[params.plane + entry] = key_of(lower[r]);
            lists[2u * params.plane + entry] = key_of(upper[r]);
          }
        }
      }
    }
  }
}
