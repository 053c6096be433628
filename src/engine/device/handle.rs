//! `Device`, the public handle over an engine: how it is chosen and opened.

use std::future::Future;
use std::sync::Arc;

use crate::engine::device::engine::Engine;
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::{self, Adapter, AdapterChoice, Gpu};
use crate::host::Host;
use crate::options::device::DeviceOptions;

/// A device that indexes live on: a GPU, or the processor. Cheap to clone; clones share buffers, compiled kernels and the scratch budget.
///
/// The environment variable `NEARFIELD_ADAPTER` overrides the choice of [`Device::best`]: `host` for the processor, `gpu` for the best
/// adapter, software drivers included, `software` for a software driver, or a part of an adapter's name. `WGPU_BACKEND` (`vulkan`, `metal`,
/// `dx12`, `gl`) narrows every choice among adapters.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) engine: Engine,
    reason: Arc<str>,
}

impl Device {
    blocking_and_async! { gpu::NoDevice;
        /// The best device: a discrete GPU before an integrated one, and without a GPU the processor. A software driver, which emulates a GPU
        /// on the processor, is taken only where `NEARFIELD_ADAPTER` asks for it. [`Device::describe`] tells what was taken and why.
        ///
        /// # Errors
        /// [`Error::NoAdapter`](crate::Error::NoAdapter) when no adapter has the name that `NEARFIELD_ADAPTER` asks for.
        pub fn best() -> Result<Self> {
            Self::open_boxed(None, DeviceOptions::default())
        }
        async best_async;

        /// The best adapter whose name contains `name`, in any case; or one of the other words that `NEARFIELD_ADAPTER` takes.
        ///
        /// # Errors
        /// [`Error::NoAdapter`](crate::Error::NoAdapter), which lists the adapters that exist.
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
        Self::host_for("because the caller asks for it".to_owned(), DeviceOptions::default())
    }

    fn host_for(reason: String, options: DeviceOptions) -> Self {
        Self { engine: Engine::Host(Arc::new(Host::new(options))), reason: reason.into() }
    }

    fn open_boxed(name: Option<&str>, options: DeviceOptions) -> Boxed<'_, Self> {
        Box::pin(async move {
            let asked = match name {
                Some(_) => None,
                None => std::env::var_os("NEARFIELD_ADAPTER").filter(|name| !name.is_empty()),
            };
            // Bytes that are no text match no name.
            let asked = asked.map(|name| name.to_string_lossy().into_owned());
            let Some(wanted) = name.or(asked.as_deref()) else { return Self::choose(options).await };
            let who = if asked.is_some() { "NEARFIELD_ADAPTER" } else { "the caller" };
            let reason = format!("because {who} asks for \"{wanted}\"");
            let choice = match wanted.to_ascii_lowercase().as_str() {
                "" => return Err(Error::argument("device", "a name", "an empty one")),
                "host" => return Ok(Self::host_for(reason, options)),
                "gpu" => AdapterChoice::Any,
                "software" => AdapterChoice::Software,
                _ => AdapterChoice::Named(wanted),
            };
            Ok(Self { engine: Engine::open(choice, options).await?, reason: reason.into() })
        })
    }

    async fn choose(options: DeviceOptions) -> Result<Self> {
        match Engine::open(AdapterChoice::Hardware, options.clone()).await {
            Ok(engine) => {
                let reason =
                    "because it is the best GPU: discrete ones come before integrated and virtual ones";
                Ok(Self { engine, reason: reason.into() })
            }
            Err(Error::NoAdapter { found, .. }) => {
                Ok(Self::host_for(format!("because there is no GPU ({found})"), options))
            }
            Err(error) => Err(error),
        }
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
    /// Ask for `adapter.limits()` and for the features `SUBGROUP`, `SHADER_F16`, `SHADER_FLOAT32_ATOMIC` and `TIMESTAMP_QUERY` where the
    /// adapter has them: features that the device was made without are not used. Cooperative matrices are not used on such a device,
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
        gpu::NoDevice.complete(Gpu::adapters())
    }

    /// Every adapter, best first.
    pub async fn adapters_async() -> Vec<Adapter> {
        Gpu::adapters().await
    }

    /// The adapter of this device.
    pub fn adapter(&self) -> &Adapter {
        self.engine.adapter()
    }

    /// The adapter's features and limits.
    pub fn capabilities(&self) -> &gpu::Capabilities {
        &self.adapter().capabilities
    }

    /// Whether this is the processor.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self.engine, Engine::Host(_))
    }

    /// How the device was opened.
    pub fn options(&self) -> &DeviceOptions {
        self.engine.options()
    }

    /// The GPU, or an error that names the operation that needs one.
    pub(crate) fn gpu(&self, operation: &str) -> Result<&Arc<Gpu>> {
        self.engine.gpu(operation)
    }

    /// Whether this thread is inside of a blocking call, and does nothing else until its future is ready.
    pub(crate) fn is_blocked() -> bool {
        gpu::is_blocked()
    }

    /// Runs the forms of kernels for vectors of this many elements wherever there are such.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn specialise(&self, dimension: u32) {
        if let Ok(gpu) = self.gpu("") {
            gpu.specialise(dimension);
        }
    }

    /// The forms for one number of elements that ran since this was called last, by kernel and variant.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn specialised_kernels(&self) -> Vec<(&'static str, String)> {
        let ran = self.gpu("").map_or(vec![], |gpu| gpu.tried_forms());
        ran.into_iter().map(|(kernel, variant)| (kernel.name(), variant.to_string())).collect()
    }

    /// How many variants of kernels were compiled on this device so far; 0 on the host engine.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn compiled_kernels(&self) -> usize {
        self.gpu("").map_or(0, |gpu| gpu.compiled())
    }

    /// Runs a future of this crate to its end on this thread, or drops it where the caller asks the call to end: how every blocking call
    /// waits.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.engine.block_on(future)
    }
}
