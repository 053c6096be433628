//! One opened GPU.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};

use super::adapter::{self, Adapter, AdapterKind, Listing, MemoryUsage};
use super::compiler::{Ahead, Compiler, KernelForms};
use super::limit::Limit;
use super::state::{Faults, Pool, Readbacks, Staging, lock};
use super::wait::Waiter;
use crate::error::{Error, Result};
use crate::options::device::DeviceOptions;
use crate::platform::CAN_WAIT;

/// The height of a tile on matrices, and whether it is of bits.
pub(crate) type TileHeight = (u32, bool);

/// One opened GPU, and what it keeps between calls.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
    /// Whether kernels use subgroup operations.
    pub(crate) subgroups: bool,
    /// Whether tiles on cooperative matrices passed the self-tests, once these ran: of collecting from them, and of scoring them.
    pub(crate) collects_on_matrices: OnceLock<bool>,
    pub(crate) scores_on_matrices: OnceLock<bool>,
    /// The same of tiles of bits.
    pub(crate) counts_on_matrices: OnceLock<bool>,
    /// The same of collecting pairs, for each form of intervals by its number.
    pub(crate) pairs_on_matrices: Mutex<Vec<(u32, bool)>>,
    /// The heights of tiles on matrices, of integers and of bits, each with what its self-test said: nothing as long as threads compile its
    /// kernel.
    pub(crate) tile_heights: Mutex<Vec<(TileHeight, Option<bool>)>>,
    /// Whether tiles of each tested height find the tokens of documents correctly.
    pub(crate) maxsim_heights: Mutex<Vec<(u32, bool)>>,
    pub(crate) compiler: Arc<Compiler>,
    pub(super) ahead: Ahead,
    pub(super) pool: Mutex<Pool>,
    /// What rows of indexes hold of the device's memory.
    pub(crate) rows_limit: Arc<Limit>,
    /// Free buffers for parameters.
    pub(super) arenas: Mutex<Vec<wgpu::Buffer>>,
    pub(super) staging: Staging,
    pub(super) readbacks: Readbacks,
    pub(super) waiter: Arc<Waiter>,
    pub(super) faults: Arc<Mutex<Faults>>,
}

impl Gpu {
    /// Opens the adapter at a place of a listing.
    pub(crate) async fn open(listing: &Listing, place: usize, options: DeviceOptions) -> Result<Self> {
        let (wgpu_adapter, adapter) = listing.at(place);
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
            .map_err(|fault| {
                Error::unsupported(adapter.to_string(), "a device with the adapter's own limits", fault)
            })?;
        let gpu = Self::new(device, queue, adapter.clone(), options);
        gpu.note_faults();
        Ok(gpu)
    }

    /// Uses a device of the caller, with the features and limits it was made with. Its error handlers stay: a browser tells any number of
    /// listeners that a device is lost, and wgpu only one.
    pub(crate) fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Self {
        let mut adapter =
            adapter::describe(&device.adapter_info(), device.features(), &device.limits(), vec![]);
        // With DX12 it may be the address of another card of the model.
        adapter.pci_address = adapter.pci_address.filter(|_| adapter.backend != "dx12");
        let gpu = Self::new(device, queue, adapter, options);
        if !CAN_WAIT {
            gpu.note_loss();
        }
        gpu
    }

    fn new(device: wgpu::Device, queue: wgpu::Queue, adapter: Adapter, options: DeviceOptions) -> Self {
        let faults = Arc::default();
        let compiler = Compiler::new(device.clone(), adapter.clone(), options.clone(), Arc::clone(&faults));
        let compiler = Arc::new(compiler);
        Self {
            rows_limit: Arc::new(Limit::new(options.memory_bytes)),
            subgroups: options.subgroups && adapter.capabilities.subgroup_sizes.is_some(),
            waiter: Arc::new(Waiter::new(device.clone(), adapter.kind)),
            device,
            queue,
            adapter,
            options,
            collects_on_matrices: OnceLock::new(),
            scores_on_matrices: OnceLock::new(),
            counts_on_matrices: OnceLock::new(),
            pairs_on_matrices: Mutex::default(),
            tile_heights: Mutex::default(),
            maxsim_heights: Mutex::default(),
            ahead: Ahead::new(compiler.clone()),
            compiler,
            pool: Mutex::default(),
            arenas: Mutex::default(),
            staging: Staging::new(),
            readbacks: Readbacks::default(),
            faults,
        }
    }

    /// Keeps the device's errors for [`Gpu::check_faults`], instead of wgpu's own handler, which panics.
    fn note_faults(&self) {
        let faults = self.faults.clone();
        self.device.on_uncaptured_error(Arc::new(move |fault| {
            lock(&faults).uncaptured.get_or_insert(fault);
        }));
        self.note_loss();
    }

    fn note_loss(&self) {
        let faults = self.faults.clone();
        self.device.set_device_lost_callback(move |reason, message| {
            lock(&faults).lost = Some(format!("{reason:?}: {message}"));
        });
    }

    /// The forms of kernels that this device runs, as far as it is known.
    pub(crate) fn kernel_forms(&self) -> KernelForms {
        KernelForms {
            subgroups: self.subgroups,
            byte_products: self.compiler.multiplies_bytes(),
            registers: self.adapter.registers(),
            matrix_side: self.adapter.capabilities.matrix_side(),
            matrices_are_right: self
                .collects_on_matrices
                .get()
                .map(|collects| *collects && self.scores_on_matrices.get() != Some(&false)),
            refusals: self.compiler.refused(),
        }
    }

    /// The memory in use and free, where the driver tells.
    pub(crate) fn memory_usage(&self) -> Option<MemoryUsage> {
        adapter::memory_of_device(&self.device)
    }

    /// Runs a future of this crate to its end on this thread, or drops it where the caller asks the call to end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.waiter.block_on(future)
    }

    /// Runs a future that waits for several devices to its end on this thread.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn block_on_all<T>(gpus: &[&Self], future: impl Future<Output = Result<T>>) -> Result<T> {
        let waiters: Vec<_> = gpus.iter().map(|gpu| &*gpu.waiter).collect();
        Waiter::block_on_all(&waiters, future)
    }

    /// The most bytes of one segment of rows.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let capabilities = &self.adapter.capabilities;
        self.options.max_segment_bytes.min(capabilities.max_binding_bytes).min(capabilities.max_buffer_bytes)
    }

    /// Whether the driver runs kernels on the processor.
    pub(crate) fn is_software(&self) -> bool {
        self.adapter.kind == AdapterKind::Software
    }

    /// Workgroups that share each of `tasks`: `on_hardware`, or fewer where a software driver starts them one after the other.
    pub(crate) fn workgroups_each(&self, tasks: u32, on_hardware: u32) -> u32 {
        match self.is_software() {
            true => on_hardware.min((SOFTWARE_WORKGROUPS / tasks.max(1)).max(1)),
            false => on_hardware,
        }
    }

    /// Whether kernels may synchronise the invocations of a subgroup.
    pub(crate) fn has_subgroup_barriers(&self) -> bool {
        self.device.features().contains(wgpu::Features::SUBGROUP_BARRIER)
    }

    /// Smallest and largest group of lanes of kernels that sum lanes, as subgroups; none without subgroups.
    pub(crate) fn subgroup_sizes(&self) -> Option<(u32, u32)> {
        self.adapter.capabilities.subgroup_sizes.filter(|_| self.subgroups)
    }
}

/// Workgroups that keep all threads of a software driver busy. Starting one takes lavapipe longer than another turn of its loop.
const SOFTWARE_WORKGROUPS: u32 = 32;

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.adapter)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
