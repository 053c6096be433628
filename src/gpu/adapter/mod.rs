//! Adapters: listing them, and choosing one.

#[cfg(target_arch = "wasm32")]
mod browser;
mod choice;
mod description;
mod listing;
mod memory;
#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::NO_ADAPTER;
#[cfg(target_arch = "wasm32")]
pub use browser::browser_instance;
pub(crate) use choice::{AdapterChoice, Choice, every_gpu, refuse_twice};
pub use description::{Adapter, AdapterKind, Capabilities, CooperativeSize};
pub(crate) use description::{describe, wanted_features};
pub(crate) use listing::Listing;
pub use memory::MemoryUsage;
pub(crate) use memory::of_device as memory_of_device;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::NO_ADAPTER;
