//! The memory of adapters, and their matrices of bytes, where Vulkan tells.

use ash::ext::memory_budget;
use ash::khr::cooperative_matrix;
use ash::vk;
use wgpu::hal::{api, vulkan};

use super::description::CooperativeSize;
use super::memory::MemoryUsage;

/// The largest of the memory heaps that are the adapter's own, with its place.
fn own_heap(memory: &vk::PhysicalDeviceMemoryProperties) -> Option<(usize, u64)> {
    let heaps = memory.memory_heaps_as_slice().iter().enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    own.map(|(place, heap)| (place, heap.size)).max_by_key(|&(_, size)| size)
}

/// The bytes of that heap; none where Vulkan does not tell.
pub(crate) fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    #[expect(unsafe_code, reason = "wgpu does not tell of memory, and Vulkan is a foreign interface")]
    // SAFETY: nothing is destroyed. The instance and the physical device are alive while the guard is, and the query only reads them.
    let memory = unsafe {
        let adapter = adapter.as_hal::<api::Vulkan>()?;
        let instance = adapter.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(adapter.raw_physical_device())
    };
    own_heap(&memory).map(|(_, bytes)| bytes)
}

/// How much of that heap is in use, for an adapter that nobody has opened; none where its driver does not tell.
pub(crate) fn memory_of_adapter(adapter: &wgpu::Adapter) -> Option<MemoryUsage> {
    #[expect(unsafe_code, reason = "wgpu does not tell of memory, and Vulkan is a foreign interface")]
    // SAFETY: nothing is destroyed.
    let adapter = unsafe { adapter.as_hal::<api::Vulkan>() }?;
    // wgpu leaves the extension out where a driver's numbers are wrong.
    let tells = adapter.physical_device_capabilities().supports_extension(memory_budget::NAME);
    tells.then(|| usage(adapter.shared_instance(), adapter.raw_physical_device()))?
}

/// [`memory_of_adapter`] of an open device.
pub(crate) fn memory_of_device(device: &wgpu::Device) -> Option<MemoryUsage> {
    #[expect(unsafe_code, reason = "wgpu does not tell of memory, and Vulkan is a foreign interface")]
    // SAFETY: nothing is destroyed.
    let device = unsafe { device.as_hal::<api::Vulkan>() }?;
    let tells = device.enabled_device_extensions().contains(&memory_budget::NAME);
    tells.then(|| usage(device.shared_instance(), device.raw_physical_device()))?
}

/// Asks a device that has the extension.
fn usage(instance: &vulkan::InstanceShared, device: vk::PhysicalDevice) -> Option<MemoryUsage> {
    let raw = instance.raw_instance();
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    #[expect(unsafe_code, reason = "wgpu does not tell of memory, and Vulkan is a foreign interface")]
    // SAFETY: the callers' guards keep the instance and the device alive. The second query is there, because both are of Vulkan 1.1 or
    // later, and it may write to the structure behind the first one, because the device has that one's extension.
    unsafe {
        let version = raw.get_physical_device_properties(device).api_version;
        if version.min(instance.instance_api_version()) < vk::API_VERSION_1_1 {
            return None;
        }
        raw.get_physical_device_memory_properties2(device, &mut memory);
    }
    let (heap, _) = own_heap(&memory.memory_properties)?;
    let (granted, used_bytes) = (budget.heap_budget[heap], budget.heap_usage[heap]);
    // A driver that lists the extension and fills in nothing tells nothing.
    (granted > 0).then(|| MemoryUsage { used_bytes, free_bytes: granted.saturating_sub(used_bytes) })
}

/// The sizes of matrices of signed bytes that subgroups multiply, summed in signed 32-bit integers. wgpu lists those of other types.
pub(crate) fn byte_matrix_sizes(adapter: &wgpu::Adapter) -> Vec<CooperativeSize> {
    #[expect(
        unsafe_code,
        reason = "wgpu does not tell of matrices of bytes, and Vulkan is a foreign interface"
    )]
    // SAFETY: nothing is destroyed. The instance and the physical device are alive while the guard is, the device has the extension, and the
    // query only reads it.
    unsafe {
        let Some(adapter) = adapter.as_hal::<api::Vulkan>() else { return vec![] };
        if !adapter.physical_device_capabilities().supports_extension(cooperative_matrix::NAME) {
            return vec![];
        }
        let shared = adapter.shared_instance();
        let matrices = cooperative_matrix::Instance::new(shared.entry(), shared.raw_instance());
        let listed =
            matrices.get_physical_device_cooperative_matrix_properties(adapter.raw_physical_device());
        listed.unwrap_or_default().iter().filter_map(size_of_bytes).collect()
    }
}

/// A size of matrices of signed bytes that subgroups multiply; none for others.
fn size_of_bytes(one: &vk::CooperativeMatrixPropertiesKHR<'_>) -> Option<CooperativeSize> {
    let (byte, sum) = (vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32);
    let types = [one.a_type, one.b_type, one.c_type, one.result_type] == [byte, byte, sum, sum];
    let is_plain = one.scope == vk::ScopeKHR::SUBGROUP && one.saturating_accumulation == vk::FALSE;
    (types && is_plain).then(|| CooperativeSize {
        size: [one.m_size, one.n_size, one.k_size],
        operands: "i8".into(),
        accumulator: "i32".into(),
    })
}
