// What kernels need that score a tile of all rows and collect from it at once, without storing scores.
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

fn query_terms_of(query: u32) -> vec4<f32> { return query_terms[query]; }

fn threshold_of(query: u32) -> u32 { return thresholds[query]; }

fn next_place(query: u32) -> u32 { return atomicAdd(&counts[query], 1u); }
