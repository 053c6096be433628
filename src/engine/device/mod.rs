//! Devices, and the vectors and values that lie on them.

pub(crate) mod distance_matrix;
pub(crate) mod engine;
pub(crate) mod handle;
pub(crate) mod matrices;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod queries;
#[cfg(feature = "unstable")]
pub(crate) mod record;
pub(crate) mod values;
pub(crate) mod vectors;
