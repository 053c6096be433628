//! Kernels that move rows and copy them.

mod move_rows;
mod widen_rows;
