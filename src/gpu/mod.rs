//! Everything that talks to wgpu: adapters, buffers, kernels, recording, transfers. wgpu's types stay in here,
//! but for [`Device::from_wgpu`](crate::Device::from_wgpu) and the recording door of the kernel-level API.

mod adapter;
mod commands;
mod kernel;
mod memory;
mod profile;
mod readback;
mod transfer;
mod unroll;
mod wait;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub(crate) use adapter::Wanted;
pub use adapter::{Adapter, AdapterKind, Capabilities, CooperativeSize};
pub(crate) use commands::{Commands, Grid};
pub(crate) use kernel::Pipeline;
pub(crate) use kernel::params;
pub use kernel::{Access, Kernel, Variant, WORKGROUP};
pub use memory::BufferSlice;
pub(crate) use memory::{Request, Reserved, Scratch, budget_for, scratch, usable};
pub use profile::{Profile, StageTime};
pub(crate) use readback::{Reading, words};
pub(crate) use transfer::RowLayout;

use crate::error::{Error, Result};
use memory::lock;

/// How a device is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Bytes of scratch memory on the device that all calls together may hold, kept buffers included. The host engine counts it call by call:
    /// queries in f32, scores and lists of rows of a search, words and lists of a selection, but neither results nor stacks, so that its
    /// reductions take none.
    /// Default: 256 MiB.
    pub budget_bytes: u64,
    /// Use subgroup operations, cooperative matrices among them, where the adapter has them. Default: true.
    pub subgroups: bool,
    /// Bytes of one segment of rows at most; the adapter's binding limit holds besides. Default: no other limit.
    pub max_segment_bytes: u64,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { budget_bytes: 256 << 20, subgroups: true, max_segment_bytes: u64::MAX }
    }
}

/// One opened GPU.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
    /// Whether kernels use subgroup operations.
    pub(crate) subgroups: bool,
    /// Side of the cooperative matrices that passed the self-test, once it was made.
    pub(crate) matrix_side: OnceLock<Option<u32>>,
    pipelines: Mutex<HashMap<(&'static str, Variant), Arc<Pipeline>>>,
    pool: Mutex<memory::Pool>,
    arenas: Mutex<Vec<wgpu::Buffer>>,
    staging: transfer::Staging,
    readbacks: readback::Readbacks,
    waiter: Arc<wait::Waiter>,
    faults: Arc<Mutex<Faults>>,
}

/// What went wrong on the device outside any call.
#[derive(Debug, Default)]
struct Faults {
    lost: Option<String>,
    uncaptured: Option<wgpu::Error>,
}

impl Gpu {
    /// Opens the best adapter that is wanted.
    pub(crate) async fn open(wanted: Wanted<'_>, options: DeviceOptions) -> Result<Self> {
        let (wgpu_adapter, adapter) = adapter::choose(wanted).await?;
        let required_features = wgpu_adapter.features() & adapter::wanted_features();
        let experimental_features = match required_features & wgpu::Features::all_experimental_mask() {
            none if none.is_empty() => wgpu::ExperimentalFeatures::disabled(),
            #[expect(
                unsafe_code,
                reason = "cooperative matrices are experimental in wgpu; searches use them only after a self-test"
            )]
            // SAFETY: the one experimental feature that is asked for is used by the kernels that say `multiplies_matrices` alone,
            // whose loads and stores stay within their buffers.
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
        let faults = gpu.faults.clone();
        gpu.device.on_uncaptured_error(Arc::new(move |fault| {
            lock(&faults).uncaptured.get_or_insert(fault);
        }));
        let faults = gpu.faults.clone();
        gpu.device.set_device_lost_callback(move |reason, message| {
            lock(&faults).lost = Some(format!("{reason:?}: {message}"));
        });
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

    /// Bytes of one segment of rows at most.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let capabilities = &self.adapter.capabilities;
        self.options.max_segment_bytes.min(capabilities.max_binding_bytes).min(capabilities.max_buffer_bytes)
    }

    /// Smallest and largest group of lanes of kernels that sum lanes, as subgroups; none without subgroups.
    pub(crate) fn subgroup_sizes(&self) -> Option<(u32, u32)> {
        self.adapter.capabilities.subgroup_sizes.filter(|_| self.subgroups)
    }

    fn pipelines(&self) -> MutexGuard<'_, HashMap<(&'static str, Variant), Arc<Pipeline>>> {
        lock(&self.pipelines)
    }

    /// The error that stands for a failed command.
    pub(crate) fn fault(&self, message: &dyn fmt::Display) -> Error {
        // A device that is gone says so when it is polled.
        let _ = self.device.poll(wgpu::PollType::Poll);
        match self.check_faults() {
            Err(error) => error,
            Ok(()) => Error::Device { message: message.to_string() },
        }
    }

    /// Reports what went wrong on the device since the last call of this.
    pub(crate) fn check_faults(&self) -> Result<()> {
        if lock(&self.faults).uncaptured.is_some() {
            // Whatever is done on a lost device is also invalid; that it is lost shows when it is polled.
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
        let mut faults = lock(&self.faults);
        if let Some(reason) = &faults.lost {
            return Err(Error::DeviceLost { reason: reason.clone() });
        }
        match faults.uncaptured.take() {
            None => Ok(()),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                Err(Error::OutOfMemory { purpose: "a submission".into(), bytes: 0 })
            }
            Some(other) => Err(Error::Device { message: other.to_string() }),
        }
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
