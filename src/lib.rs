//! x
pub mod error;
mod gpu;
pub mod kernels;
mod matrix;
mod metric;
mod neighbors;
#[cfg(feature = "io")]
pub mod io;
pub use error::*;
pub use matrix::*;
pub use metric::*;
pub use neighbors::*;
pub use gpu::*;
