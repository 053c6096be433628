//! For the project's benchmarks and tests only: any version may change it.

pub mod ceilings;
pub mod vectors_seen;

/// The kernels: declarations, parameters, `encode` and references.
pub mod kernels {
    pub use crate::kernels::*;
}

/// The intervals that screens certify.
pub mod certificate {
    pub use crate::screen::certificate::*;
}
