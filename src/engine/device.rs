//! `Device`, the public handle over an engine, and matrices that live on it.

use std::future::Future;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::{self, Adapter, BufferSlice, Commands, DeviceOptions, Gpu, RowLayout};
use crate::kernels::norms;
use crate::matrix::{Element, ElementKind, MatrixView};

/// What computes.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Gpu(Arc<Gpu>),
}

/// A device that indexes live on. Cheap to clone; clones share buffers, compiled kernels and the scratch budget.
///
/// The environment variable `NEARFIELD_ADAPTER` (a part of an adapter's name) overrides the choice of [`Device::best`],
/// `WGPU_BACKEND` (`vulkan`, `metal`, `dx12`, `gl`) narrows every choice.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) engine: Engine,
}

impl Device {
    /// The best adapter: a discrete GPU before an integrated one before a software driver.
    ///
    /// # Errors
    /// [`Error::NoAdapter`](crate::Error::NoAdapter) when there is none, or none has the name that
    /// `NEARFIELD_ADAPTER` asks for.
    pub fn best() -> Result<Self> {
        pollster::block_on(Self::open_async(None, DeviceOptions::default()))
    }

    /// The best adapter whose name contains `name`, in any case.
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
            None => std::env::var("NEARFIELD_ADAPTER").ok().filter(|name| !name.is_empty()),
        };
        let gpu = Gpu::open(name.or(asked.as_deref()), options).await?;
        Ok(Self { engine: Engine::Gpu(Arc::new(gpu)) })
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
        Self { engine: Engine::Gpu(Arc::new(Gpu::from_wgpu(device, queue, options))) }
    }

    /// Every adapter, best first.
    pub fn adapters() -> Vec<Adapter> {
        pollster::block_on(Gpu::adapters())
    }

    /// The adapter of this device.
    pub fn adapter(&self) -> &Adapter {
        match &self.engine {
            Engine::Gpu(gpu) => &gpu.adapter,
        }
    }

    /// What the adapter can do.
    pub fn capabilities(&self) -> &gpu::Capabilities {
        &self.adapter().capabilities
    }

    /// How the device was opened.
    pub fn options(&self) -> &DeviceOptions {
        match &self.engine {
            Engine::Gpu(gpu) => &gpu.options,
        }
    }

    /// The engine of operations that only a GPU has.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        match &self.engine {
            Engine::Gpu(gpu) => gpu,
        }
    }

    /// Runs a future of this crate to its end on this thread.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.engine {
            Engine::Gpu(gpu) => gpu.block_on(future),
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
        let gpu = self.gpu();
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
        Ok(DeviceMatrix {
            gpu: gpu.clone(),
            buffer,
            rows: rows.rows(),
            dim: rows.dim(),
            stride: layout.stride,
        })
    }
}

/// An error when what lives on the device `there` is used with another one.
pub(super) fn check_same(
    argument: &'static str,
    what: &str,
    there: &Arc<Gpu>,
    here: &Arc<Gpu>,
) -> Result<()> {
    if Arc::ptr_eq(there, here) {
        return Ok(());
    }
    let needed = format!("{what} on the same device ({})", here.adapter);
    Err(Error::argument(argument, needed, format!("one on another ({})", there.adapter)))
}

/// Vectors on a device, `[rows, dim]`, f32, checked to be finite.
#[derive(Debug, Clone)]
pub struct DeviceMatrix {
    gpu: Arc<Gpu>,
    pub(crate) buffer: wgpu::Buffer,
    rows: usize,
    dim: usize,
    pub(crate) stride: usize,
}

impl DeviceMatrix {
    /// An error when the matrix lives on another device.
    pub(crate) fn check_device(&self, argument: &'static str, gpu: &Arc<Gpu>) -> Result<()> {
        check_same(argument, "a matrix", &self.gpu, gpu)
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
    pub fn as_slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.buffer)
    }
}
