// Sums of matrices of bytes on their way to invocations, in the memory of the rows' slices, which is free by then. So a low tile takes
// little memory: three workgroups of it run on a multiprocessor of an H200, and not two. Below 2^24 sums are exact as floats.
const SHARED = QUERIES + HEIGHT; // vectors

fn store_sums(sums: Sum, at: u32) { coopStoreT(sums, &row_slice[at], 4u); }

fn stored_sums(at: u32) -> vec4<f32> { return vec4<f32>(bitcast<vec4<i32>>(row_slice[at])); }
