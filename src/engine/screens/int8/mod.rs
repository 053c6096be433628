//! The screen on 8-bit codes: what it keeps of rows, what multiplies tiles of it, and the kernels that score it.

pub(crate) mod codes;
pub(crate) mod scores;
pub(crate) mod tiles;
