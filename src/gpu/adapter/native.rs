//! The adapters of this machine.

use super::description::{Adapter, describe};

/// Tells the user why there may be no adapter.
pub(crate) const NO_ADAPTER: &str = "no adapter: is a Vulkan, Metal or DX12 driver installed?";

/// The largest of the memory heaps that are the adapter's own; none where Vulkan does not tell.
#[cfg(any(target_os = "linux", target_os = "android", windows))]
fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    #[expect(unsafe_code, reason = "wgpu does not tell of memory, and Vulkan is a foreign interface")]
    // SAFETY: nothing is destroyed. The instance and the physical device are alive while the guard is, and the query only reads them.
    let memory = unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = adapter.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(adapter.raw_physical_device())
    };
    let heaps = memory.memory_heaps_as_slice().iter();
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

/// Metal and DX12 have no such heaps.
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
fn memory_bytes(_: &wgpu::Adapter) -> Option<u64> {
    None
}

/// The adapters of some backends that can run kernels.
async fn computing(
    mut descriptor: wgpu::InstanceDescriptor,
    backends: wgpu::Backends,
) -> Vec<(wgpu::Adapter, wgpu::AdapterInfo)> {
    descriptor.backends = backends;
    let adapters = wgpu::Instance::new(descriptor).enumerate_adapters(backends).await;
    let computes = |adapter: &wgpu::Adapter| {
        adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    };
    let with_info = |adapter: wgpu::Adapter| {
        let info = adapter.get_info();
        (adapter, info)
    };
    adapters.into_iter().filter(computes).map(with_info).collect()
}

/// Every adapter that can compute, best first. `WGPU_BACKEND` narrows the choice of interfaces.
pub(crate) async fn enumerate() -> Vec<(wgpu::Adapter, Adapter)> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    if !cfg!(debug_assertions) {
        // The checks of indirect dispatches cost a dispatch each; nothing here is dispatched indirectly.
        descriptor.flags = wgpu::InstanceFlags::empty();
    }
    let descriptor = descriptor.with_env();
    let (flags, backends) = (descriptor.flags, descriptor.backends);
    // OpenGL lists the hardware of the other backends again, with fewer features and smaller limits: it is asked only
    // when they list nothing, or when WGPU_BACKEND names no other.
    let mut found = computing(descriptor, backends - wgpu::Backends::GL).await;
    if found.is_empty() && backends.contains(wgpu::Backends::GL) {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle().with_env();
        descriptor.flags = flags;
        found = computing(descriptor, wgpu::Backends::GL).await;
    }
    let mut described: Vec<_> = found
        .into_iter()
        .map(|(adapter, info)| {
            let mut description = describe(
                &info,
                adapter.features(),
                &adapter.limits(),
                adapter.cooperative_matrix_properties(),
            );
            description.memory_bytes = memory_bytes(&adapter);
            (adapter, description)
        })
        .collect();
    described.sort_by_key(|(_, description)| description.kind);
    described
}
