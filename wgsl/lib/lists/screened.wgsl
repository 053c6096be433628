// What kernels share that screen the rows of lists: the terms of queries, the states of their searches, and rows by the pages
// they lie on. Files beside this one bind `queries` and `rows`, quantized vectors in blocks of BLOCK_ROWS. The queries' terms lie in
// one buffer with their integers, and their states in one with each other, because WebGPU promises eight buffers.
@group(0) @binding(3) var<storage, read> row_terms: array<vec4<f32>>; // [rows]
@group(0) @binding(4) var<storage, read> allowed: array<u32>; // one bit per slot of the index, if HAS_BITSET = 1
@group(0) @binding(5) var<storage, read_write> states: array<atomic<u32>>; // [3, room]: candidates, threshold, whether too many

fn query_terms_of(query: u32) -> vec4<f32> { return bitcast<vec4<f32>>(queries[params.query_terms + query]); }

fn list_of(query: u32) -> u32 { return query; }

fn threshold_of(query: u32) -> u32 { return atomicLoad(&states[params.room + query]); }

fn next_place(query: u32) -> u32 { return atomicAdd(&states[query], 1u); }

// The row at a place of a page. It is not usable if there is no page.
fn row_of(page: u32, place: u32) -> u32 { return page * PAGE + (place & (PAGE - 1u)) - params.first_slot; }
