// Sums of f16 matrices on their way to invocations, in the memory of the terms, which these have read by then.
const SHARED = 256u; // vectors
const TOGETHER = 1u; // pieces that are tested at a time

fn store_sums(sums: Sum, at: u32) { coopStoreT(sums, &shared_terms[at], 4u); }

fn exchange() { subgroupBarrier(); }

fn low_sums(sums: Sum, at: u32) -> vec4<f32> { return shared_terms[at]; }

fn high_sums(sums: Sum, at: u32) -> vec4<f32> { return shared_terms[at]; }

// Four neighbouring rows of a piece.
fn row_of_sum(lane: u32, number: u32) -> u32 { return lane % 4u * 4u + number; }

fn place_of_row(row: u32) -> u32 { return row; }
