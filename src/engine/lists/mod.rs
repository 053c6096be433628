//! Lists of rows around centroids, on a GPU.

pub(crate) mod ahead;
pub(crate) mod assign;
pub(crate) mod centroids;
pub(crate) mod coarse;
pub(crate) mod given;
pub(crate) mod gpu_training;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod hybrid;
pub(crate) mod on_host;
pub(crate) mod probing;
pub(crate) mod sample;
pub(crate) mod tables;
pub(crate) mod training;
pub(crate) mod widening;
