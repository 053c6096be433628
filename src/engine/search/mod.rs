//! Exact search on a GPU: plans, batches, the screening and the exhaustive route, and search within a radius.

pub(crate) mod ahead;
pub(crate) mod answers;
pub(crate) mod batch;
pub(crate) mod batches;
pub(crate) mod chunks;
pub(crate) mod exhaustive;
pub(crate) mod graph;
pub(crate) mod host;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod hybrid;
pub(crate) mod nearest;
pub(crate) mod plan;
pub(crate) mod planning;
pub(crate) mod request;
pub(crate) mod screened;
pub(crate) mod screening;
pub(crate) mod within;
