//! What only the project's benchmarks and tests need. It may change with any version.

pub mod ceilings;
pub mod ladder;

/// The kernels: declarations, parameters, `encode` and references.
pub mod kernels {
    pub use crate::kernels::*;
}

/// The intervals that screens certify.
pub mod certificate {
    pub use crate::screen::certificate::*;
}
