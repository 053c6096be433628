//! The memory of adapters where Vulkan is not asked: Metal has no heaps of an adapter's own, and a browser does not tell.

use super::memory::MemoryUsage;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn memory_bytes(_: &wgpu::Adapter) -> Option<u64> {
    None
}

/// No interface besides Vulkan lists them.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn byte_matrix_sizes(_: &wgpu::Adapter) -> Vec<super::CooperativeSize> {
    vec![]
}

pub(crate) fn memory_of_adapter(_: &wgpu::Adapter) -> Option<MemoryUsage> {
    None
}

pub(crate) fn memory_of_device(_: &wgpu::Device) -> Option<MemoryUsage> {
    None
}
