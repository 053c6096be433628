//! Arithmetic on vectors of f32 and f16, compiled for the widest registers.

pub(crate) mod prefetch;
pub(crate) mod registers;
pub(crate) mod sums;
pub(crate) mod tiles;
