//! The rows of an index: what it asks of them, on a GPU, on the host, and on the host with a quantised copy on a GPU.

pub(crate) mod alive;
pub(crate) mod allowed;
pub(crate) mod change;
pub(crate) mod changing;
pub(crate) mod contract;
pub(crate) mod edit;
pub(crate) mod gathered;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod hybrid;
pub(crate) mod mirrored;
pub(crate) mod moves;
mod on_gpu;
pub(crate) mod on_host;
pub(crate) mod open;
pub(crate) mod segments;
pub(crate) mod shape;
pub(crate) mod write;
