//! Rows and lists of an index on one device or on several: what an index calls. Below it, every device has rows and lists of its own.
//!
//! A browser's page opens one device: modules that only several need are left out of its library.

pub(crate) mod devices;
pub(crate) mod engine_lists;
pub(crate) mod engine_rows;
#[cfg(not(target_arch = "wasm32"))]
mod layout;
#[cfg(not(target_arch = "wasm32"))]
mod merging;
#[cfg(not(target_arch = "wasm32"))]
mod reading;
pub(crate) mod recovery;
#[cfg(not(target_arch = "wasm32"))]
mod rows;
#[cfg(not(target_arch = "wasm32"))]
mod searching;
#[cfg(not(target_arch = "wasm32"))]
mod shares;
#[cfg(not(target_arch = "wasm32"))]
mod spread_lists;
#[cfg(not(target_arch = "wasm32"))]
mod timing;
#[cfg(not(target_arch = "wasm32"))]
mod together;
