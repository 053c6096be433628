//! The adapters of this machine.

use super::description::{Adapter, describe};
#[cfg(target_os = "linux")]
use super::no_window;
use super::{byte_matrix_sizes, memory_bytes};

/// Tells the user why there may be no adapter.
pub(crate) const NO_ADAPTER: &str = "no adapter: is a Vulkan, Metal or DX12 driver installed?";

#[cfg(target_os = "linux")]
fn instance(descriptor: wgpu::InstanceDescriptor) -> wgpu::Instance {
    no_window::instance(&descriptor).unwrap_or_else(|| wgpu::Instance::new(descriptor))
}

#[cfg(not(target_os = "linux"))]
fn instance(descriptor: wgpu::InstanceDescriptor) -> wgpu::Instance {
    wgpu::Instance::new(descriptor)
}

/// The adapters of some backends that can run kernels.
async fn computing(
    mut descriptor: wgpu::InstanceDescriptor,
    backends: wgpu::Backends,
) -> Vec<(wgpu::Adapter, wgpu::AdapterInfo)> {
    descriptor.backends = backends;
    let adapters = instance(descriptor).enumerate_adapters(backends).await;
    let computes = |adapter: &wgpu::Adapter| {
        adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    };
    let with_info = |adapter: wgpu::Adapter| {
        let info = adapter.get_info();
        (adapter, info)
    };
    adapters.into_iter().filter(computes).map(with_info).collect()
}

/// What instances are made with, where the environment says nothing else.
fn descriptor() -> wgpu::InstanceDescriptor {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // Without the checks of indirect dispatches, which cost a dispatch each: nothing here is dispatched indirectly. Without shaders'
    // debug information, for which naga counts lines from the start of the text at every instruction. WGPU_DEBUG=1 adds it.
    descriptor.flags =
        if cfg!(debug_assertions) { wgpu::InstanceFlags::VALIDATION } else { wgpu::InstanceFlags::empty() };
    descriptor.with_env()
}

/// Every adapter that can compute, best first. `WGPU_BACKEND` narrows the choice of interfaces.
pub(crate) async fn enumerate() -> Vec<(wgpu::Adapter, Adapter)> {
    let backends = descriptor().backends;
    // OpenGL lists the hardware of the other backends again, with fewer features and smaller limits: it is asked only
    // when they list nothing, or when WGPU_BACKEND names no other.
    let mut found = computing(descriptor(), backends - wgpu::Backends::GL).await;
    if found.is_empty() && backends.contains(wgpu::Backends::GL) {
        found = computing(descriptor(), wgpu::Backends::GL).await;
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
            if adapter.features().contains(wgpu::Features::PASSTHROUGH_SHADERS) {
                description.capabilities.cooperative_sizes.extend(byte_matrix_sizes(&adapter));
            }
            (adapter, description)
        })
        .collect();
    described.sort_by_key(|(_, description)| description.kind);
    described
}
