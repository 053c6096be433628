// What kernels need that score a tile of all rows and collect from it at once, without storing scores.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> query_terms: array<vec4<f32>>; // [queries]
@group(0) @binding(5) var<storage, read> thresholds: array<u32>; // [lists]: keys
@group(0) @binding(6) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(7) var<storage, read_write> counts: array<atomic<u32>>; // [lists]
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [3, lists, capacity]: slots, lower, upper keys

// Block number `number` of the dispatch, in the segment. Its number in the index is a multiple of `step` and, where `ratio` is not
// 0, not of `ratio * step`.
fn block_of(number: u32) -> u32 {
  var multiple = params.first + number;
  if (params.ratio != 0u) { multiple += multiple / (params.ratio - 1u) + 1u; }
  return multiple * params.step - params.base;
}

fn query_terms_of(query: u32) -> vec4<f32> { return query_terms[query]; }

// The number of a query's list. With PAIRS = 1 queries are rows too, from slot `params.first_query` on, and each row has a list, at the number of
// its slot.
fn list_of(query: u32) -> u32 {
  if (PAIRS == 1u) { return params.first_query + query; }
  return query;
}

fn threshold_of(list: u32) -> u32 { return thresholds[list]; }

fn next_place(list: u32) -> u32 { return atomicAdd(&counts[list], 1u); }
