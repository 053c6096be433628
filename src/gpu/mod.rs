//! Everything that talks to wgpu: adapters, buffers, kernels, recording, transfers. wgpu's types stay in here,
//! except for [`Device::from_wgpu`](crate::Device::from_wgpu) and the recording of kernels.

mod adapter;
mod commands;
mod faults;
mod kernel;
mod memory;
mod pipeline;
mod profile;
mod readback;
mod transfer;
mod unroll;
mod wait;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub(crate) use adapter::AdapterChoice;
pub use adapter::{Adapter, AdapterKind, Capabilities, CooperativeSize};
pub(crate) use commands::{Commands, Grid};
pub use kernel::{Access, Kernel, Variant, WORKGROUP};
pub(crate) use kernel::{Snippet, Uniform, params, wgsl};
pub use memory::BufferSlice;
pub(crate) use memory::{Request, Reserved, Scratch, budget_for, scratch, usable};
pub(crate) use pipeline::Pipeline;
use pipeline::PipelineKey;
pub use profile::{Profile, StageTime};
pub(crate) use readback::{Reading, words};
pub(crate) use transfer::RowLayout;
pub(crate) use wait::block_on;
/// A buffer on the device.
pub(crate) use wgpu::Buffer;

use crate::error::{Error, Result};
use crate::options::DeviceOptions;
use faults::Faults;
use memory::lock;

/// One opened GPU.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
    /// Whether kernels use subgroup operations.
    pub(crate) subgroups: bool,
    /// Rows and columns of the cooperative matrices that passed the self-test, once it ran.
    pub(crate) matrix_side: OnceLock<Option<u32>>,
    pipelines: Mutex<HashMap<PipelineKey, Arc<Pipeline>>>,
    pool: Mutex<memory::Pool>,
    arenas: Mutex<Vec<Buffer>>,
    staging: transfer::Staging,
    readbacks: readback::Readbacks,
    waiter: Arc<wait::Waiter>,
    faults: Arc<Mutex<Faults>>,
}

impl Gpu {
    /// Opens the best adapter of a choice.
    pub(crate) async fn open(choice: AdapterChoice<'_>, options: DeviceOptions) -> Result<Self> {
        let (wgpu_adapter, adapter) = adapter::choose(choice).await?;
        let required_features = wgpu_adapter.features() & adapter::wanted_features();
        let experimental_features = match required_features & wgpu::Features::all_experimental_mask() {
            none if none.is_empty() => wgpu::ExperimentalFeatures::disabled(),
            #[expect(
                unsafe_code,
                reason = "cooperative matrices are experimental in wgpu; searches use them only after a self-test"
            )]
            // SAFETY: only kernels declared with `multiplies_matrices` use the one experimental feature, and their loads and stores
            // stay within their buffers.
            _ => unsafe { wgpu::ExperimentalFeatures::enabled() },
        };
        let (device, queue) = wgpu_adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("nearfield"),
                required_features,
                experimental_features,
                required_limits: wgpu_adapter.limits(),
                // Not `MemoryUsage`: with its small blocks of host memory every search allocates one, for half a
                // millisecond. An idle device is no larger for it (tests/idle.rs).
                memory_hints: wgpu::MemoryHints::Performance,
                ..Default::default()
            })
            .await
            .map_err(|fault| Error::Unsupported {
                what: adapter.to_string(),
                needed: "a device with the adapter's own limits".into(),
                available: fault.to_string(),
            })?;
        let gpu = Self::new(device, queue, adapter, options);
        gpu.note_faults();
        Ok(gpu)
    }

    /// Uses a device of the caller, with the features and limits it was made with. Its error handlers stay.
    pub(crate) fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Self {
        let adapter = adapter::describe(&device.adapter_info(), device.features(), &device.limits(), vec![]);
        Self::new(device, queue, adapter, options)
    }

    fn new(device: wgpu::Device, queue: wgpu::Queue, adapter: Adapter, options: DeviceOptions) -> Self {
        Self {
            subgroups: options.subgroups && adapter.capabilities.subgroup_sizes.is_some(),
            waiter: Arc::new(wait::Waiter::new(device.clone(), adapter.kind)),
            device,
            queue,
            adapter,
            options,
            matrix_side: OnceLock::new(),
            pipelines: Mutex::default(),
            pool: Mutex::default(),
            arenas: Mutex::default(),
            staging: transfer::Staging::new(),
            readbacks: readback::Readbacks::default(),
            faults: Arc::default(),
        }
    }

    /// Every adapter, best first.
    pub(crate) async fn adapters() -> Vec<Adapter> {
        adapter::enumerate().await.into_iter().map(|(_, adapter)| adapter).collect()
    }

    /// Runs a future of this crate to its end on this thread.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.waiter.block_on(future)
    }

    /// The most bytes of one segment of rows.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let capabilities = &self.adapter.capabilities;
        self.options.max_segment_bytes.min(capabilities.max_binding_bytes).min(capabilities.max_buffer_bytes)
    }

    /// Smallest and largest group of lanes of kernels that sum lanes, as subgroups; none without subgroups.
    pub(crate) fn subgroup_sizes(&self) -> Option<(u32, u32)> {
        self.adapter.capabilities.subgroup_sizes.filter(|_| self.subgroups)
    }

    fn pipelines(&self) -> MutexGuard<'_, HashMap<PipelineKey, Arc<Pipeline>>> {
        lock(&self.pipelines)
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.adapter)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
