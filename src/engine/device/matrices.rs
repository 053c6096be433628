//! Vectors on a device, in a buffer of a GPU or in the host's memory.

use std::sync::{Arc, OnceLock};

use crate::elements::{Element, ElementKind, HostVectors, Matrix, MatrixView, with_view};
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::memory::{MatrixMemory, copied};
use crate::engine::pass::{BufferVectors, encode_norms, reset_refused};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout};
use crate::host::{self, NormedVectors};
use crate::kernels::pairs::HalfVectors;
use crate::kernels::{halve, norms};

/// The norms of a matrix's vectors.
#[derive(Debug, Clone)]
enum MatrixNorms {
    Gpu(Arc<GpuNorms>),
    /// Squared, `[rows]`.
    Host(Arc<[f64]>),
}

impl MatrixNorms {
    fn in_buffer(norms: Buffer) -> Self {
        Self::Gpu(GpuNorms { norms, numbers: OnceLock::new(), halves: OnceLock::new() }.into())
    }
}

/// Norms in a buffer, and what some calls make of the vectors and keep.
#[derive(Debug)]
struct GpuNorms {
    /// Squared and inverse, `[rows, 2]`.
    norms: Buffer,
    /// The numbers of the rows, u64 each.
    numbers: OnceLock<Buffer>,
    /// The vectors in f16, and their factors.
    halves: OnceLock<[Buffer; 2]>,
}

/// Vectors on a device, `[rows, dim]`, f32, checked to be finite.
#[derive(Debug, Clone)]
pub struct DeviceMatrix {
    engine: Engine,
    memory: MatrixMemory,
    norms: MatrixNorms,
    /// The type of the numbers, which lie as f32: another only of copies of an index's rows.
    kind: ElementKind,
    rows: usize,
    dim: usize,
    stride: usize,
}

impl Device {
    blocking_and_async! { self;
        /// Copies vectors to the device, to be used by several calls.
        ///
        /// # Errors
        /// [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the row's number; [`Error::OutOfMemory`]; [`Error::Unsupported`]
        /// when the vectors do not fit one binding of the adapter.
        pub fn upload<'v>(&self, rows: impl Into<HostVectors<'v>>) -> Result<DeviceMatrix> {
            self.upload_boxed(rows.into())
        }
        async upload_async;
    }

    pub(crate) fn upload_boxed<'a>(&'a self, rows: HostVectors<'a>) -> Boxed<'a, DeviceMatrix> {
        Box::pin(DeviceMatrix::upload(&self.engine, rows))
    }
}

impl DeviceMatrix {
    async fn upload(engine: &Engine, vectors: HostVectors<'_>) -> Result<Self> {
        vectors.kind().check_numbers("rows")?;
        let (rows, dim) = (vectors.rows(), vectors.dim());
        let (memory, norms, stride) = match engine {
            Engine::Gpu(gpu) => {
                let layout = RowLayout::padded(ElementKind::F32, dim);
                let bytes = rows as u64 * layout.row_bytes();
                gpu.check_binding("vectors", bytes)?;
                let buffer = gpu.create_storage("vectors", bytes)?;
                gpu.upload_rows(&buffer, 0, layout, vectors, &mut |_| ()).await?;
                // Refuses values that are not finite.
                let norms = norms_of(gpu, &buffer, layout, rows).await?;
                (MatrixMemory::Gpu(buffer.into()), MatrixNorms::in_buffer(norms), layout.stride)
            }
            Engine::Host(_) => {
                let squared = host::checked("rows", vectors)?;
                let values = with_view!(vectors, view => copied(view.values(), |x| x.widen()))?;
                (MatrixMemory::Host(values.into()), MatrixNorms::Host(squared.into()), dim)
            }
        };
        Ok(Self { engine: engine.clone(), memory, norms, kind: ElementKind::F32, rows, dim, stride })
    }

    blocking_and_async! { device;
        /// Vectors of the caller's buffer, `[rows, dim]`, f32: such as embeddings that a model left on the GPU. Each vector starts `dim`
        /// elements behind the one before it, rounded up to a multiple of four; what lies between them is zero. The buffer has the usages
        /// `STORAGE` and `COPY_SRC`, and the wgpu device of `device`; nobody may write to it while the matrix is used.
        ///
        /// # Errors
        /// [`Error::Argument`] for a dim of 0, too small a buffer or another usage; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with
        /// the row's number; [`Error::Unsupported`] on the host engine, and for more bytes than one binding holds.
        pub fn from_wgpu(device: &Device, buffer: &Buffer, rows: usize, dim: usize) -> Result<Self> {
            Self::of_buffer(device, buffer, [rows, dim])
        }
        async from_wgpu_async;
    }

    fn of_buffer<'a>(device: &'a Device, buffer: &'a Buffer, [rows, dim]: [usize; 2]) -> Boxed<'a, Self> {
        Box::pin(async move {
            let gpu = device.gpu("a matrix in a buffer")?;
            if dim == 0 {
                return Err(Error::argument("dim", "at least 1", dim));
            }
            let layout = RowLayout::padded(ElementKind::F32, dim);
            let bytes = (rows as u64).saturating_mul(layout.row_bytes());
            if buffer.size() < bytes {
                let needed = format!("{bytes} bytes for {rows} rows of {} elements", layout.stride);
                return Err(Error::argument("buffer", needed, format!("{} bytes", buffer.size())));
            }
            let usages = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
            if !buffer.usage().contains(usages) {
                let needed = format!("the usages {usages:?}");
                return Err(Error::argument("buffer", needed, format!("{:?}", buffer.usage())));
            }
            gpu.check_binding("vectors", bytes)?;
            let norms = MatrixNorms::in_buffer(norms_of(gpu, buffer, layout, rows).await?);
            let (engine, memory) = (device.engine.clone(), MatrixMemory::Gpu(buffer.clone().into()));
            Ok(Self { engine, memory, norms, kind: ElementKind::F32, rows, dim, stride: layout.stride })
        })
    }

    /// Rows of an index of this type in a buffer of their own, where they lie as f32.
    pub(crate) async fn of_copies(
        gpu: &Arc<Gpu>,
        copies: Buffer,
        (layout, kind): (RowLayout, ElementKind),
        [rows, dim]: [usize; 2],
    ) -> Result<Self> {
        let norms = MatrixNorms::in_buffer(norms_of(gpu, &copies, layout, rows).await?);
        let (engine, memory) = (Engine::Gpu(gpu.clone()), MatrixMemory::Gpu(copies.into()));
        Ok(Self { engine, memory, norms, kind, rows, dim, stride: layout.stride })
    }

    blocking_and_async! { self.engine;
        /// Fetches the vectors from the device: f32, whatever they were uploaded as.
        ///
        /// # Errors
        /// [`Error::DeviceLost`], [`Error::OutOfMemory`].
        ///
        /// ```no_run
        /// use nearfield::{Device, Matrix, MatrixView};
        /// let device = Device::best()?;
        /// let matrix = device.upload(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
        /// assert_eq!(matrix.to_host()?, Matrix::F32(vec![0.0, 0.0, 3.0, 4.0], 2));
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn to_host(&self) -> Result<Matrix> {
            self.fetched()
        }
        async to_host_async;
    }

    /// The vectors on the host, without padding, in f32 as they lie.
    pub(crate) async fn fetched(&self) -> Result<Matrix> {
        let Self { dim, stride, .. } = *self;
        let mut values = self.memory.read(&self.engine, self.rows * stride).await?;
        RowLayout::new(ElementKind::F32, stride).remove_padding(&mut values, dim);
        Ok(Matrix::F32(values, dim))
    }

    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a matrix", &self.engine)
    }

    pub(crate) fn buffer(&self) -> Result<&Buffer> {
        self.memory.buffer()
    }

    /// The vectors of the host engine, and their norms.
    pub(crate) fn normed_on_host(&self) -> Result<NormedVectors<'_>> {
        let squared = match &self.norms {
            MatrixNorms::Gpu(..) => &[],
            MatrixNorms::Host(squared) => &squared[..],
        };
        Ok(NormedVectors { vectors: self.on_host()?, squared })
    }

    fn on_gpu(&self) -> Result<&GpuNorms> {
        match &self.norms {
            MatrixNorms::Gpu(norms) => Ok(norms),
            MatrixNorms::Host(_) => {
                Err(Error::unsupported("a buffer of norms", "a GPU", "vectors in the host's memory"))
            }
        }
    }

    /// Makes the copy of the vectors in f16, unless there is one.
    pub(crate) fn make_halves(&self, gpu: &Gpu) -> Result<()> {
        let kept = &self.on_gpu()?.halves;
        if kept.get().is_some() {
            return Ok(());
        }
        let quads = (self.stride / 4) as u32;
        let bytes = self.rows as u64 * u64::from(halve::pitch_of(quads)) * 8;
        gpu.check_binding("vectors in f16", bytes)?;
        let values = gpu.create_storage("vectors in f16", bytes)?;
        let factors = gpu.create_storage("factors", self.rows as u64 * 8)?;
        let buffers = [self.as_slice()?, self.norms()?, (&values).into(), (&factors).into()];
        let mut commands = Commands::new(gpu, None);
        halve::encode(&mut commands, [self.rows as u32, quads], buffers)?;
        // Whoever finds the copy may submit work that reads it.
        commands.submit();
        kept.get_or_init(|| [values, factors]);
        Ok(())
    }

    /// The numbers of the rows in a buffer of a GPU, u64 each, made at the first call.
    pub(crate) async fn numbers(&self, gpu: &Gpu) -> Result<Buffer> {
        let kept = &self.on_gpu()?.numbers;
        if let Some(numbers) = kept.get() {
            return Ok(numbers.clone());
        }
        let buffer = gpu.create_storage("numbers of rows", self.rows as u64 * 8)?;
        let numbers: Vec<u64> = (0..self.rows as u64).collect();
        gpu.upload_bytes(&buffer, 0, bytemuck::cast_slice(&numbers)).await?;
        Ok(kept.get_or_init(|| buffer).clone())
    }

    /// The vectors of the host engine, to be kept by whoever searches them.
    pub(crate) fn shared_on_host(&self) -> Arc<Vec<f32>> {
        match &self.memory {
            MatrixMemory::Gpu(_) => Arc::default(),
            MatrixMemory::Host(values) => values.clone(),
        }
    }

    /// The vectors of the host engine.
    pub(crate) fn on_host(&self) -> Result<MatrixView<'_, f32>> {
        MatrixView::new(self.memory.on_host(), self.dim)
    }

    /// How many vectors there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn kind(&self) -> ElementKind {
        self.kind
    }

    /// Elements from the start of one vector to the start of the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The buffer, for kernels that the caller records.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the host engine, which has no buffers.
    pub fn as_slice(&self) -> Result<BufferSlice<'_>> {
        Ok(BufferSlice::all(self.buffer()?))
    }

    /// The squared and inverse norms of the vectors, `[rows, 2]`, f32, for kernels that the caller records. The inverse of a zero
    /// vector's norm is 0.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the host engine, which has no buffers.
    pub fn norms(&self) -> Result<BufferSlice<'_>> {
        Ok((&self.on_gpu()?.norms).into())
    }

    /// The copy of the vectors in f16, for kernels that the caller records. None before a call by
    /// [`Precision::Half`](crate::Precision::Half) has used one.
    pub fn halves(&self) -> Option<HalfVectors<'_>> {
        let [values, factors] = self.on_gpu().ok()?.halves.get()?;
        let pitch = halve::pitch_of((self.stride / 4) as u32);
        Some(HalfVectors { values: values.into(), factors: factors.into(), pitch })
    }
}

/// The norms of the rows in a buffer, squared and inverse, in another one. Refuses values that are not finite.
async fn norms_of(gpu: &Arc<Gpu>, buffer: &Buffer, layout: RowLayout, rows: usize) -> Result<Buffer> {
    let norm_buffer = gpu.create_storage("norms", rows as u64 * 8)?;
    let refused = gpu.create_storage("refused", 8)?;
    reset_refused(gpu, &refused).await?;
    let mut commands = Commands::new(gpu, None);
    let vectors = BufferVectors { values: BufferSlice::all(buffer), layout };
    encode_norms(&mut commands, vectors, ([0, rows as u32], 0), ((&norm_buffer).into(), (&refused).into()))?;
    let parts = commands.read(&[(&refused, 0, 8)]).await?;
    norms::check("rows", &parts[0])?;
    Ok(norm_buffer)
}
