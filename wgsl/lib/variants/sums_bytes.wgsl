// Sums of matrices of bytes on their way to invocations, in the memory of the rows' slices, which is free by then. So a low tile takes
// little memory: three workgroups of it run on a multiprocessor of an H200, and not two. Below 2^24 sums are exact as floats.
const SHARED = QUERIES + HEIGHT; // vectors
const TOGETHER = 1u; // pieces that are tested at a time: more would take registers of sums that are on their way

fn store_sums(sums: Sum, at: u32) { coopStoreT(sums, &row_slice[at], 4u); }

fn exchange() { subgroupBarrier(); }

fn low_sums(sums: Sum, at: u32) -> vec4<f32> { return vec4<f32>(bitcast<vec4<i32>>(row_slice[at])); }

fn high_sums(sums: Sum, at: u32) -> vec4<f32> { return low_sums(sums, at); }

// Four neighbouring rows of a piece.
fn row_of_sum(lane: u32, number: u32) -> u32 { return lane % 4u * 4u + number; }

fn place_of_row(row: u32) -> u32 { return row; }
