//! `Device`, the public handle over an engine, and matrices that live on it.

use std::future::Future;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::{self, Adapter, BufferSlice, Commands, DeviceOptions, Gpu, RowLayout, Wanted};
use crate::host::Host;
use crate::kernels::norms;
use crate::matrix::{Element, ElementKind, MatrixView};

/// What computes.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Gpu(Arc<Gpu>),
    Host(Arc<Host>),
}

impl From<&Arc<Gpu>> for Engine {
    fn from(gpu: &Arc<Gpu>) -> Self {
        Self::Gpu(gpu.clone())
    }
}

impl Engine {
    /// Whether both are one device.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gpu(one), Self::Gpu(other)) => Arc::ptr_eq(one, other),
            // They have one memory.
            (Self::Host(_), Self::Host(_)) => true,
            _ => false,
        }
    }

    pub(crate) fn adapter(&self) -> &Adapter {
        match self {
            Self::Gpu(gpu) => &gpu.adapter,
            Self::Host(host) => &host.adapter,
        }
    }

    /// An error when what lives on the device `there` is used with this one.
    pub(crate) fn check(&self, argument: &'static str, what: &str, there: &Self) -> Result<()> {
        if self.is(there) {
            return Ok(());
        }
        let needed = format!("{what} on the same device ({})", self.adapter());
        Err(Error::argument(argument, needed, format!("one on another ({})", there.adapter())))
    }
}

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
    /// The best device: a discrete GPU before an integrated one, and without a GPU the processor. A software driver, which is a GPU played
    /// by the processor, is only taken where `NEARFIELD_ADAPTER` asks for it. [`Device::describe`] tells what was taken and why.
    ///
    /// # Errors
    /// [`Error::NoAdapter`](crate::Error::NoAdapter) when there is none of the name that `NEARFIELD_ADAPTER` asks for.
    pub fn best() -> Result<Self> {
        pollster::block_on(Self::open_async(None, DeviceOptions::default()))
    }

    /// The processor: no driver is needed, and small work starts at once. It uses the threads of [rayon]'s global pool; the environment
    /// variable `RAYON_NUM_THREADS` sets how many there are. As with all work on that pool: who calls it from a task of the pool while
    /// holding a lock, which other tasks of the pool wait for, may wait for ever.
    ///
    /// Its futures are ready when they return: they compute on the thread that polls them and on those of the pool.
    ///
    /// [rayon]: https://docs.rs/rayon
    pub fn host() -> Self {
        Self::host_for("because the caller asks for it".to_owned(), DeviceOptions::default())
    }

    fn host_for(reason: String, options: DeviceOptions) -> Self {
        Self { engine: Engine::Host(Arc::new(Host::new(options))), reason: reason.into() }
    }

    /// The best adapter whose name contains `name`, in any case; or what `NEARFIELD_ADAPTER` can ask for besides.
    ///
    /// # Errors
    /// [`Error::NoAdapter`](crate::Error::NoAdapter), which lists the adapters that are there.
    pub fn named(name: &str) -> Result<Self> {
        pollster::block_on(Self::open_async(Some(name), DeviceOptions::default()))
    }

    /// As [`Device::best`] or, with a name, [`Device::named`], with other than the default options.
    ///
    /// # Errors
    /// As theirs.
    pub fn open(name: Option<&str>, options: DeviceOptions) -> Result<Self> {
        pollster::block_on(Self::open_async(name, options))
    }

    /// [`Device::open`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn open_async(name: Option<&str>, options: DeviceOptions) -> Result<Self> {
        let asked = match name {
            Some(_) => None,
            None => std::env::var_os("NEARFIELD_ADAPTER").filter(|name| !name.is_empty()),
        };
        // What is no text is the name of nothing.
        let asked = asked.map(|name| name.to_string_lossy().into_owned());
        let Some(wanted) = name.or(asked.as_deref()) else { return Self::choose(options).await };
        let who = if asked.is_some() { "NEARFIELD_ADAPTER" } else { "the caller" };
        let reason = format!("because {who} asks for \"{wanted}\"");
        let wanted = match wanted.to_lowercase().as_str() {
            "host" => return Ok(Self::host_for(reason, options)),
            "gpu" => Wanted::Any,
            "software" => Wanted::Software,
            _ => Wanted::Named(wanted),
        };
        let gpu = Gpu::open(wanted, options).await?;
        Ok(Self { engine: Engine::Gpu(Arc::new(gpu)), reason: reason.into() })
    }

    async fn choose(options: DeviceOptions) -> Result<Self> {
        match Gpu::open(Wanted::Hardware, options.clone()).await {
            Ok(gpu) => {
                let reason =
                    "because it is the first GPU: discrete ones come before integrated and virtual ones";
                Ok(Self { engine: Engine::Gpu(Arc::new(gpu)), reason: reason.into() })
            }
            Err(Error::NoAdapter { found, .. }) => {
                Ok(Self::host_for(format!("because there is no GPU ({found})"), options))
            }
            Err(error) => Err(error),
        }
    }

    /// What this device is, and why it was taken.
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
    /// adapter has them: what the device was not made with is not used. Cooperative matrices are not used on such a device,
    /// because it does not tell which sizes its adapter has.
    ///
    /// The device's error handlers stay the caller's. wgpu's own one panics when a device is lost while it is in use: set
    /// another with `on_uncaptured_error` if that is not wanted. Calls then fail with
    /// [`Error::Device`](crate::Error::Device) or [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue, options: DeviceOptions) -> Self {
        let reason = "because it is the caller's".into();
        Self { engine: Engine::Gpu(Arc::new(Gpu::from_wgpu(device, queue, options))), reason }
    }

    /// Every adapter, best first.
    pub fn adapters() -> Vec<Adapter> {
        pollster::block_on(Gpu::adapters())
    }

    /// The adapter of this device.
    pub fn adapter(&self) -> &Adapter {
        self.engine.adapter()
    }

    /// What the adapter can do.
    pub fn capabilities(&self) -> &gpu::Capabilities {
        &self.adapter().capabilities
    }

    /// How the device was opened.
    pub fn options(&self) -> &DeviceOptions {
        match &self.engine {
            Engine::Gpu(gpu) => &gpu.options,
            Engine::Host(host) => &host.options,
        }
    }

    /// The engine of what only a GPU has.
    pub(crate) fn gpu(&self, what: &str) -> Result<&Arc<Gpu>> {
        match &self.engine {
            Engine::Gpu(gpu) => Ok(gpu),
            Engine::Host(host) => Err(Error::Unsupported {
                what: what.to_owned(),
                needed: "a GPU".to_owned(),
                available: host.adapter.to_string(),
            }),
        }
    }

    /// Runs a future of this crate to its end on this thread.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.engine {
            Engine::Gpu(gpu) => gpu.block_on(future),
            Engine::Host(_) => pollster::block_on(future),
        }
    }

    /// Copies vectors to the device, to be used by several calls.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) and [`Error::NormOutOfRange`](crate::Error::NormOutOfRange) with
    /// the row's number; [`Error::OutOfMemory`](crate::Error::OutOfMemory);
    /// [`Error::Unsupported`](crate::Error::Unsupported) when the vectors do not fit one binding of the adapter.
    pub fn upload<T: Element>(&self, rows: MatrixView<'_, T>) -> Result<DeviceMatrix> {
        self.block_on(self.upload_async(rows))
    }

    /// [`Device::upload`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn upload_async<T: Element>(&self, rows: MatrixView<'_, T>) -> Result<DeviceMatrix> {
        match &self.engine {
            Engine::Gpu(gpu) => DeviceMatrix::on_gpu(gpu, rows).await,
            Engine::Host(_) => {
                crate::host::checked("rows", rows)?;
                let values: Vec<f32> = rows.values().iter().map(|x| x.widen()).collect();
                let numbers = Numbers::Host(values.into());
                let (rows, dim) = (rows.rows(), rows.dim());
                Ok(DeviceMatrix { engine: self.engine.clone(), numbers, rows, dim, stride: dim })
            }
        }
    }
}

/// f32 that a device keeps.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    Gpu(wgpu::Buffer),
    Host(Arc<[f32]>),
}

impl Numbers {
    /// The buffer of a GPU.
    pub(crate) fn buffer(&self) -> Result<&wgpu::Buffer> {
        match self {
            Self::Gpu(buffer) => Ok(buffer),
            Self::Host(_) => Err(Error::Unsupported {
                what: "a buffer".to_owned(),
                needed: "a GPU".to_owned(),
                available: "its numbers in the host's memory".to_owned(),
            }),
        }
    }

    /// The numbers, where they are in the host's memory.
    pub(crate) fn on_host(&self) -> &[f32] {
        match self {
            Self::Gpu(_) => &[],
            Self::Host(values) => values,
        }
    }
}

/// Vectors on a device, `[rows, dim]`, f32, checked to be finite.
#[derive(Debug, Clone)]
pub struct DeviceMatrix {
    engine: Engine,
    numbers: Numbers,
    rows: usize,
    dim: usize,
    stride: usize,
}

impl DeviceMatrix {
    async fn on_gpu<T: Element>(gpu: &Arc<Gpu>, rows: MatrixView<'_, T>) -> Result<Self> {
        let layout = RowLayout::padded(ElementKind::F32, rows.dim());
        let bytes = rows.rows() as u64 * layout.row_bytes();
        gpu.check_binding("vectors", bytes)?;
        let buffer = gpu.create_storage("vectors", bytes)?;
        gpu.upload_rows(&buffer, 0, layout, rows, |_| ()).await?;
        let norm_buffer = gpu.create_storage("norms", rows.rows() as u64 * 8)?;
        let refused = gpu.create_storage("refused", 8)?;
        gpu.upload_bytes(&refused, 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(gpu, None);
        norms::encode(
            &mut commands,
            &norms::Norms {
                rows: BufferSlice::all(&buffer),
                elements: ElementKind::F32,
                vectors: (layout.stride / 4) as u32,
                range: [0, rows.rows() as u32],
                first_number: 0,
                norms: BufferSlice::all(&norm_buffer),
                refused: BufferSlice::all(&refused),
            },
        )?;
        let parts = commands.read(&[(&refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        Ok(Self {
            engine: Engine::Gpu(gpu.clone()),
            numbers: Numbers::Gpu(buffer),
            rows: rows.rows(),
            dim: rows.dim(),
            stride: layout.stride,
        })
    }

    /// An error when the matrix lives on another device.
    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a matrix", &self.engine)
    }

    /// The buffer of a GPU.
    pub(crate) fn buffer(&self) -> Result<&wgpu::Buffer> {
        self.numbers.buffer()
    }

    /// The vectors of a host engine.
    pub(crate) fn on_host(&self) -> Result<MatrixView<'_, f32>> {
        MatrixView::new(self.numbers.on_host(), self.dim)
    }

    /// How many vectors there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Elements from the start of one vector to the start of the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The buffer, for kernels that the caller records.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on the host engine, which has no buffers.
    pub fn as_slice(&self) -> Result<BufferSlice<'_>> {
        Ok(BufferSlice::all(self.buffer()?))
    }
}
