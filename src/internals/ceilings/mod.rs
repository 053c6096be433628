//! Kernels that measure a device's ceilings. Benchmarks compare the other kernels with them.

pub mod copy;
pub mod multiply_add;
pub mod multiply_coop;
pub mod multiply_integers;
pub mod read_vectors;

use crate::gpu::Kernel;

/// Every kernel of the ceilings.
pub static KERNELS: &[&Kernel] = &[
    &copy::KERNEL,
    &multiply_add::KERNEL,
    &multiply_coop::KERNEL,
    &multiply_integers::KERNEL,
    &read_vectors::KERNEL,
];
