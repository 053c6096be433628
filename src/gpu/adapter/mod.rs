//! Adapters: listing them, and choosing one.

#[cfg(target_arch = "wasm32")]
mod browser;
mod choice;
mod description;
mod listing;
mod memory;
#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
mod no_vulkan;
#[cfg(target_os = "linux")]
mod no_window;
#[cfg(test)]
mod tests;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod vulkan;

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::NO_ADAPTER;
#[cfg(target_arch = "wasm32")]
pub use browser::browser_instance;
pub(crate) use choice::{AdapterChoice, Choice, every_gpu, refuse_twice};
pub use description::{Adapter, AdapterKind, Capabilities, CooperativeSize};
pub(crate) use description::{describe, wanted_features};
pub(crate) use listing::Listing;
pub use memory::MemoryUsage;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::NO_ADAPTER;
#[cfg(not(any(target_os = "linux", target_os = "android", windows, target_arch = "wasm32")))]
pub(crate) use no_vulkan::{byte_matrix_sizes, memory_bytes};
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
pub(crate) use no_vulkan::{memory_of_adapter, memory_of_device};
#[cfg(any(target_os = "linux", target_os = "android", windows))]
pub(crate) use vulkan::{byte_matrix_sizes, memory_bytes, memory_of_adapter, memory_of_device};
