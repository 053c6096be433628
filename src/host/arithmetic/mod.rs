//! Arithmetic on vectors, compiled for the widest registers.

pub(crate) mod prefetch;
pub(crate) mod registers;
pub(crate) mod sums;
pub(crate) mod tiles;
