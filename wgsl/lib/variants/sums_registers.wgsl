// Sums of matrices of bytes where subgroups of 32 lanes hold them: 8 of 16 x 16 in the registers of each. Lane L has those of queries
// L / 4 and, in the high half, L / 4 + 8, by rows L % 4 * 2 and the next one, and by those eight rows further. Vulkan leaves that order to
// the driver, so the self-test tells whether it is the driver's. Below 2^24 sums are exact as floats.
const SHARED = QUERIES + HEIGHT; // vectors
const TOGETHER = 2u; // pieces that are tested at a time

fn store_sums(sums: Sum, at: u32) {}

fn exchange() {}

// WGSL cannot read a matrix. The compiler's byte_matrices.rs puts the elements of these numbers in their place.
fn low_elements(sums: Sum) -> vec4<i32> { return vec4(0, 1, 2, 3); }

fn high_elements(sums: Sum) -> vec4<i32> { return vec4(4, 5, 6, 7); }

fn low_sums(sums: Sum, at: u32) -> vec4<f32> { return vec4<f32>(low_elements(sums)); }

fn high_sums(sums: Sum, at: u32) -> vec4<f32> { return vec4<f32>(high_elements(sums)); }

fn row_of_sum(lane: u32, number: u32) -> u32 { return lane % 4u * 2u + number % 2u + number / 2u * 8u; }

// Where the terms of a row lie, so that those of a lane's four rows are a vector.
fn place_of_row(row: u32) -> u32 { return row / 16u * 16u + row / 2u % 4u * 4u + row / 8u % 2u * 2u + row % 2u; }
