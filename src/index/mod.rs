//! The indexes: [`Flat`](crate::Flat), [`Ivf`](crate::Ivf), [`Index`](crate::Index) for either, k-means, and their files.

pub(crate) mod any;
mod changes;
pub(crate) mod clusters;
pub(crate) mod common;
pub(crate) mod documents;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod durable;
mod face;
pub(crate) mod file;
pub(crate) mod flat;
mod grouped;
pub(crate) mod ivf;
pub(crate) mod kmeans;
pub(crate) mod loader;
pub(crate) mod log;
#[cfg(not(target_arch = "wasm32"))]
mod mapped;
pub(crate) mod pairwise;
pub(crate) mod quantizing;
mod refining;
pub(crate) mod saved;
mod shared;
pub(crate) mod vector_index;
