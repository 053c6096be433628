//! The rows of an index on a GPU.

pub(crate) mod alive;
pub(crate) mod allowed;
pub(crate) mod device_rows;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod hybrid;
pub(crate) mod moves;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod of_file;
pub(crate) mod on_host;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod outgrown;
pub(crate) mod segments;
pub(crate) mod shape;
pub(crate) mod write;
