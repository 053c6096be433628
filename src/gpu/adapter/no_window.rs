//! Vulkan without windows of Wayland, where nobody has such.
//!
//! A layer of Mesa's looks for a Wayland display whenever the adapters of an instance are listed that could show windows there. The library
//! that it asks prints an error every time if the environment has no directory to look in, as in most containers and on servers. This
//! library shows no windows. Its instance therefore leaves the extension out, and the layer does not look: the environment, which another
//! thread may read, stays as it is.

use std::path::Path;

use wgpu::hal::{self, api, vulkan};

/// The extension that makes the layer look.
const WAYLAND: &[u8] = b"VK_KHR_wayland_surface";

/// Whether the environment tells where a display would be. Then nobody complains, and wgpu makes the instance.
fn can_look() -> bool {
    let is_absolute = |name| std::env::var_os(name).is_some_and(|path| Path::new(&path).is_absolute());
    ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY"].into_iter().any(is_absolute)
}

/// The instance of Vulkan where nobody has windows; none where somebody may, or where another interface or no Vulkan is asked for.
pub(super) fn instance(descriptor: &wgpu::InstanceDescriptor) -> Option<wgpu::Instance> {
    let is_needed = descriptor.backends.contains(wgpu::Backends::VULKAN) && !can_look();
    if is_needed { without_windows(descriptor) } else { None }
}

/// An instance of Vulkan that has no windows of Wayland; none without Vulkan.
///
/// wgpu gives it its own flags beside the driver's: it compiles checks of indirect dispatches when a device opens, which nothing here runs.
pub(super) fn without_windows(descriptor: &wgpu::InstanceDescriptor) -> Option<wgpu::Instance> {
    let descriptor = hal::InstanceDescriptor {
        name: "nearfield",
        flags: descriptor.flags,
        memory_budget_thresholds: descriptor.memory_budget_thresholds,
        backend_options: descriptor.backend_options.clone(),
        telemetry: None,
        display: None,
    };
    let leave_out: Box<vulkan::CreateInstanceCallback<'_>> =
        Box::new(|arguments| arguments.extensions.retain(|name| name.to_bytes() != WAYLAND));
    #[expect(unsafe_code, reason = "wgpu leaves no extension out, and Vulkan is a foreign interface")]
    // SAFETY: nothing is added that the instance may lack. wgpu asks for this extension where the driver has it, and without it is as on a
    // driver that has none: only surfaces of Wayland need it, and this library makes none, nor gives the instance to anybody. The new
    // instance is wgpu's alone.
    let instance = unsafe {
        let instance = vulkan::Instance::init_with_callback(&descriptor, Some(leave_out)).ok()?;
        wgpu::Instance::from_hal::<api::Vulkan>(instance)
    };
    Some(instance)
}
