//! An index on several devices: rows are divided among them or repeated on each, and answers are merged.
//!
//! A browser's page opens one device: modules that only several need are left out of its library.

#[cfg(not(target_arch = "wasm32"))]
mod as_rows;
#[cfg(not(target_arch = "wasm32"))]
mod changes;
pub(crate) mod devices;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod layout;
#[cfg(not(target_arch = "wasm32"))]
mod lists;
#[cfg(not(target_arch = "wasm32"))]
mod merging;
pub(crate) mod open;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod reading;
#[cfg(not(target_arch = "wasm32"))]
mod recovery;
#[cfg(not(target_arch = "wasm32"))]
mod rows;
#[cfg(not(target_arch = "wasm32"))]
mod searching;
#[cfg(not(target_arch = "wasm32"))]
mod shares;
#[cfg(not(target_arch = "wasm32"))]
mod timing;
#[cfg(not(target_arch = "wasm32"))]
mod together;
