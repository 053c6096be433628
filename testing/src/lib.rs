//! What the tests of the library, its fuzz targets and its benchmark share: true answers in f64, a model of indexes, seeded values, and
//! runs of programs.
#![expect(missing_docs, reason = "it is not published, and most names say all")]
#![expect(missing_debug_implementations, reason = "as above")]

pub mod kills;
pub mod life;
pub mod living;
pub mod maxsim;
pub mod programs;
mod random;
pub mod sets;
mod spanning;
pub mod truth;

pub use random::{Random, rounded, view};
pub use spanning::spanning_lengths;
