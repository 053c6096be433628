//! `Device`, the public handle over an engine: how it is chosen and opened.

#[cfg(not(target_arch = "wasm32"))]
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
#[cfg(not(target_arch = "wasm32"))]
use std::sync::{LazyLock, Mutex};

use crate::engine::device::engine::Engine;
use crate::engine::device::open::{self, Opened};
use crate::error::Result;
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::{self, Adapter, Gpu, KernelForms, Listing, MemoryUsage};
use crate::host::Host;
#[cfg(not(target_arch = "wasm32"))]
use crate::lock::lock;
use crate::options::device::DeviceOptions;

/// The devices of [`Device::shared`], by what was asked for.
#[cfg(not(target_arch = "wasm32"))]
static SHARED: LazyLock<Mutex<HashMap<String, Device>>> = LazyLock::new(Mutex::default);

/// A device that indexes live on: a GPU, or the processor. Cheap to clone; clones share buffers, compiled kernels and the scratch budget.
///
/// # Names
///
/// | name | device |
/// |---|---|
/// | `best` | that of [`Device::best`] |
/// | `host` | the processor |
/// | `gpu` | the best adapter, a software driver if there is no other |
/// | `software` | the best software driver |
/// | `1` | the adapter with this [`Adapter::index`], from 0 |
/// | `h200` | the best adapter whose name contains this |
/// | `h200#1` | the adapter with this number, from 0, among those whose name contains the text before |
///
/// Case does not matter. [`Device::open_all`] takes lists with commas between the names (`0,1`), and `all` for every GPU. A comma in
/// parentheses belongs to a name.
///
/// The environment variable `NEARFIELD_ADAPTER` has the name of the device that [`Device::best`] takes. `WGPU_BACKEND` (`vulkan`,
/// `metal`, `dx12`, `gl`) narrows every choice among adapters, and with it their indexes.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) engine: Engine,
    reason: Arc<str>,
}

impl From<Opened> for Device {
    fn from((engine, reason): Opened) -> Self {
        Self { engine, reason: reason.into() }
    }
}

impl Device {
    blocking_and_async! { gpu::NoDevice;
        /// The best device: a discrete GPU before an integrated one, and without a GPU the processor. A software driver, which emulates a GPU
        /// on the processor, is taken only where `NEARFIELD_ADAPTER` asks for it. [`Device::describe`] tells what was taken and why.
        ///
        /// # Errors
        /// [`Error::NoAdapter`](crate::Error::NoAdapter) when no adapter has the name that `NEARFIELD_ADAPTER` asks for, and
        /// [`Error::Argument`](crate::Error::Argument) when that is a list.
        pub fn best() -> Result<Self> {
            Self::open_boxed(None, DeviceOptions::default())
        }
        async best_async;

        /// The device of a [name](Device#names): the best adapter whose name contains it, in any case, or what the other words and
        /// numbers stand for.
        ///
        /// # Errors
        /// [`Error::NoAdapter`](crate::Error::NoAdapter), which lists the adapters that exist with their indexes. A list is refused with
        /// [`Error::Argument`](crate::Error::Argument): see [`Device::open_all`].
        pub fn named(name: &str) -> Result<Self> {
            Self::open_boxed(Some(name), DeviceOptions::default())
        }
        async named_async;

        /// As [`Device::best`] or, with a name, [`Device::named`], with other than the default options.
        ///
        /// # Errors
        /// As theirs.
        pub fn open(name: Option<&str>, options: DeviceOptions) -> Result<Self> {
            Self::open_boxed(name, options)
        }
        async open_async;

        /// The devices of a list of [names](Device#names), in its order, each opened with these options: `0,1`, `h200#0,h200#1`,
        /// or `all` for every GPU, best first, each once though two interfaces list it. `best` is one of them, as [`Device::best`]
        /// takes it.
        ///
        /// A GPU can be in a list once. The processor and software drivers can be in it any number of times (`host,host`,
        /// `software,software`), and are then as many devices.
        ///
        /// ```
        /// use nearfield::{Device, DeviceOptions};
        ///
        /// assert_eq!(Device::open_all("host,host", DeviceOptions::new())?.len(), 2);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        ///
        /// # Errors
        /// [`Error::NoAdapter`](crate::Error::NoAdapter) when there is no adapter for a name, or no GPU for `all`;
        /// [`Error::Argument`](crate::Error::Argument) when a name is empty, or two are one GPU. Then none of them stays open.
        pub fn open_all(names: &str, options: DeviceOptions) -> Result<Vec<Self>> {
            Self::open_all_boxed(names, options)
        }
        async open_all_async;
    }

    /// The device of a [name](Device#names), or the best, that the whole process shares: it is opened once, with the default options, and
    /// later calls have a clone of it, whichever of its names they give. After it was lost, the next call opens it anew.
    ///
    /// For libraries and bindings whose callers name a device with each call. Calls of other threads wait while it is opened, which a
    /// browser cannot.
    ///
    /// ```
    /// use nearfield::{Device, Flat, Metric};
    ///
    /// let device = Device::shared(Some("host"))?;
    /// let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
    /// index.add(&[[0.0f32, 1.0]][..])?;
    /// let row = Device::shared(Some("HOST"))?.nearest(&[0.0f32, 1.0], &[0.0f32, 1.0], Metric::L2, 1)?;
    /// assert_eq!(row.ids(), index.search(&[0.0f32, 1.0], 1)?.ids());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::open`]. Nothing is kept then.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn shared(name: Option<&str>) -> Result<Self> {
        let name = name.unwrap_or("best");
        let mut shared = lock(&SHARED);
        shared.retain(|_, device| !device.engine.is_lost());
        let key = open::key(name);
        if let Some(device) = shared.get(&key) {
            return Ok(device.clone());
        }
        let known: Vec<Engine> = shared.values().map(|device| device.engine.clone()).collect();
        let device = Self::from(gpu::NoDevice.block_on(open::one(name, DeviceOptions::default(), &known))?);
        shared.insert(key, device.clone());
        Ok(device)
    }

    /// The processor: it needs no driver, and small work starts at once. It uses the threads of [rayon]'s global pool; the environment
    /// variable `RAYON_NUM_THREADS` sets how many there are. As with all work on that pool, a deadlock is possible for a caller who is
    /// itself a task of the pool and holds a lock that other tasks wait for.
    ///
    /// Its futures compute on the thread that polls them and on those of the pool. They are ready when they return, except for searches
    /// that wait for others: see [`DeviceOptions::join_searches`].
    ///
    /// [rayon]: https://docs.rs/rayon
    pub fn host() -> Self {
        let engine = Engine::Host(Arc::new(Host::new(DeviceOptions::default())));
        Self { engine, reason: "because the caller asks for it".into() }
    }

    fn open_boxed(name: Option<&str>, options: DeviceOptions) -> Boxed<'_, Self> {
        let opened = open::one(name.unwrap_or("best"), options, &[]);
        Box::pin(async move { opened.await.map(Self::from) })
    }

    fn open_all_boxed(names: &str, options: DeviceOptions) -> Boxed<'_, Vec<Self>> {
        let opened = open::all(names, options);
        Box::pin(async move { Ok(opened.await?.into_iter().map(Self::from).collect()) })
    }

    /// Names this device, and says why it was taken.
    pub fn describe(&self) -> String {
        format!("{}, {}", self.adapter(), self.reason)
    }

    /// Why it was taken: the part of [`Device::describe`] behind the name.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Uses a wgpu device of the caller, with the features and limits it was made with.
    ///
    /// Ask for `adapter.limits()` and for the features `SUBGROUP`, `SHADER_F16` and `TIMESTAMP_QUERY` where the adapter
    /// has them: features that the device was made without are not used. Cooperative matrices are not used on such a device,
    /// because it does not tell which sizes its adapter has.
    ///
    /// The device's error handlers stay the caller's. wgpu's own one panics when a device is lost while it is in use: set
    /// another with `on_uncaptured_error` if that is not wanted. Calls then fail with
    /// [`Error::Device`](crate::Error::Device) or [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Self {
        let reason = "because it is the caller's".into();
        Self { engine: Engine::Gpu(Arc::new(Gpu::from_wgpu(device, queue, options))), reason }
    }

    /// Every adapter, best first. Not in a browser, which has to be waited for.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters() -> Vec<Adapter> {
        gpu::NoDevice.complete(Listing::new()).adapters
    }

    /// Every adapter, best first.
    pub async fn adapters_async() -> Vec<Adapter> {
        Listing::new().await.adapters
    }

    /// Every adapter, as [`Device::adapters`] lists them, with what [`Device::memory_usage`] would tell. None of them is opened.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters_with_memory() -> Vec<(Adapter, Option<MemoryUsage>)> {
        gpu::NoDevice.complete(Listing::new()).with_memory()
    }

    /// How much of the device's memory this process uses, and how much it can use besides, at this moment: of a GPU's own memory, or of
    /// the system's. None where nobody tells: Vulkan does by its extension `VK_EXT_memory_budget`, and Linux for the host engine.
    pub fn memory_usage(&self) -> Option<MemoryUsage> {
        self.engine.memory_usage()
    }

    /// Whether both compute on the same hardware, and so would not share work: clones of a device, or devices that were opened on one
    /// GPU. The processor and a software driver are as many devices as are opened. A device of the caller's wgpu, which has no index, is
    /// found to be another's GPU by its PCI address alone.
    pub(crate) fn is_same_hardware(&self, other: &Self) -> bool {
        self.engine.is_same_hardware(&other.engine)
    }

    /// The adapter of this device.
    pub fn adapter(&self) -> &Adapter {
        self.engine.adapter()
    }

    /// The adapter's features and limits.
    pub fn capabilities(&self) -> &gpu::Capabilities {
        &self.adapter().capabilities
    }

    /// The forms of kernels that the device runs, as far as they were compiled. None on the host engine, which runs no kernel.
    pub fn kernel_forms(&self) -> Option<KernelForms> {
        match &self.engine {
            Engine::Gpu(gpu) => Some(gpu.kernel_forms()),
            Engine::Host(_) => None,
        }
    }

    pub(crate) fn is_host(&self) -> bool {
        matches!(self.engine, Engine::Host(_))
    }

    /// How the device was opened.
    pub fn options(&self) -> &DeviceOptions {
        self.engine.options()
    }

    /// The wgpu device, for making buffers and encoders.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on the host engine, which has none.
    pub fn wgpu_device(&self) -> Result<&wgpu::Device> {
        Ok(&self.gpu("a wgpu device")?.device)
    }

    /// The wgpu queue that recorded encoders are submitted to.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on the host engine, which has none.
    pub fn wgpu_queue(&self) -> Result<&wgpu::Queue> {
        Ok(&self.gpu("a wgpu queue")?.queue)
    }

    pub(crate) fn gpu(&self, operation: &str) -> Result<&Arc<Gpu>> {
        self.engine.gpu(operation)
    }

    /// Runs a future of this crate to its end on this thread, or drops it where the caller asks the call to end: how every blocking call
    /// waits.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.engine.block_on(future)
    }
}

#[cfg(feature = "internals")]
#[doc(hidden)]
impl Device {
    /// Runs the forms of kernels for vectors of this many elements wherever there are such.
    pub fn specialise(&self, dimension: u32) {
        if let Ok(gpu) = self.gpu("") {
            gpu.compiler.choose(gpu::FormChoice::Specialised(dimension));
        }
    }

    /// Writes kernels as for hardware, on any driver. None may have been compiled before.
    pub fn write_for_hardware(&self) {
        if let Ok(gpu) = self.gpu("") {
            gpu.compiler.write_for(gpu::Driver::Hardware);
        }
    }

    /// The forms for one number of elements that ran since this was called last, by kernel and variant.
    pub fn specialised_kernels(&self) -> Vec<(&'static str, String)> {
        let ran = self.gpu("").map_or(vec![], |gpu| gpu.compiler.tried());
        ran.into_iter().map(|(kernel, variant)| (kernel.name(), variant.to_string())).collect()
    }

    /// How many variants of kernels were compiled on this device so far; 0 on the host engine.
    pub fn compiled_kernels(&self) -> usize {
        self.gpu("").map_or(0, |gpu| gpu.compiler.count())
    }
}
