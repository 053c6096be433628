//! Exact dot products of i8 vectors, and common bits, by the best instructions that the processor has.

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "SIMD instructions that were detected, on pointers into slices cut to size")]
#[expect(clippy::needless_range_loop, reason = "the index names a register in several arrays")]
mod arm;
#[expect(unsafe_code, reason = "the interface of the kernels for instruction sets")]
mod bits;
pub(crate) mod dots;
pub(crate) mod isa;
pub(crate) mod packed;
#[expect(unsafe_code, reason = "the interface of the kernels for instruction sets")]
mod portable;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "wasm32")]
#[expect(unsafe_code, reason = "SIMD instructions, on pointers into slices cut to size")]
#[expect(clippy::needless_range_loop, reason = "the index names a register in several arrays")]
mod wasm;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "SIMD instructions that were detected, on pointers into slices cut to size")]
#[expect(clippy::needless_range_loop, reason = "the index names a register in several arrays")]
mod x86;
