//! Values to reduce, on the host or on a device: vectors of any length, and rows.

use crate::elements::{
    Element, ElementKind, Elements, HostVectors, MatrixView, SharedElements, with_elements,
};
use crate::engine::device::distance_matrix::DistanceMatrix;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::memory::copied;
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::{Buffer, BufferSlice, Gpu};
use crate::kernels::reduce_blocks::Shape;
use crate::parallel;

/// Values to reduce, on the host or on the device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Values<'a> {
    /// On the host.
    Host(Elements<'a>),
    /// On the device.
    Device(&'a DeviceVector),
}

impl<'a> From<Elements<'a>> for Values<'a> {
    fn from(values: Elements<'a>) -> Self {
        Self::Host(values)
    }
}

impl<'a, T: Element> From<&'a [T]> for Values<'a> {
    fn from(values: &'a [T]) -> Self {
        Self::Host(values.into())
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Values<'a> {
    fn from(values: &'a Vec<T>) -> Self {
        values.as_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Values<'a> {
    fn from(values: &'a [T; N]) -> Self {
        values.as_slice().into()
    }
}

impl<'a> From<&'a DeviceVector> for Values<'a> {
    fn from(values: &'a DeviceVector) -> Self {
        Self::Device(values)
    }
}

impl<'a> Values<'a> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Host(values) => values.len() as u64,
            Self::Device(vector) => vector.len,
        }
    }

    pub(crate) fn kind(&self) -> ElementKind {
        match self {
            Self::Host(values) => values.kind(),
            Self::Device(vector) => vector.kind,
        }
    }

    /// The values in the host's memory; none in buffers of a GPU.
    pub(crate) fn on_host(&self) -> Option<Elements<'a>> {
        match self {
            Self::Host(values) => Some(*values),
            Self::Device(vector) => match &vector.memory {
                VectorMemory::Gpu(_) => None,
                VectorMemory::Host(values) => Some(values.elements()),
            },
        }
    }

    /// The bytes of values on the host.
    pub(crate) fn host_bytes(&self) -> Option<&'a [u8]> {
        self.on_host().map(Elements::bytes)
    }
}

/// Rows to reduce, each by itself, on the host or on the device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ValueRows<'a> {
    /// On the host.
    Host(HostVectors<'a>),
    /// Vectors on the device.
    Device(&'a DeviceMatrix),
    /// Distances on the device, a row for each query.
    Distances(&'a DistanceMatrix),
}

impl<'a> From<HostVectors<'a>> for ValueRows<'a> {
    fn from(rows: HostVectors<'a>) -> Self {
        Self::Host(rows)
    }
}

impl<'a, T: Element> From<MatrixView<'a, T>> for ValueRows<'a> {
    fn from(rows: MatrixView<'a, T>) -> Self {
        HostVectors::from(rows).into()
    }
}

impl<'a> From<&'a DeviceMatrix> for ValueRows<'a> {
    fn from(rows: &'a DeviceMatrix) -> Self {
        Self::Device(rows)
    }
}

impl<'a> From<&'a DistanceMatrix> for ValueRows<'a> {
    fn from(rows: &'a DistanceMatrix) -> Self {
        Self::Distances(rows)
    }
}

impl<'a> ValueRows<'a> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Host(rows) => rows.rows(),
            Self::Device(matrix) => matrix.rows(),
            Self::Distances(matrix) => matrix.queries(),
        }
    }

    /// Values a row.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Host(rows) => rows.dim(),
            Self::Device(matrix) => matrix.dim(),
            Self::Distances(matrix) => matrix.rows(),
        }
    }

    pub(crate) fn kind(&self) -> ElementKind {
        match self {
            Self::Host(rows) => rows.kind(),
            _ => ElementKind::F32,
        }
    }

    /// Their place and layout in words. Operands of a product have to agree: a kernel reads them at the same places.
    pub(crate) fn place(&self) -> &'static str {
        match self {
            Self::Host(_) => "rows on the host",
            Self::Device(_) => "vectors on the device",
            Self::Distances(_) => "distances on the device",
        }
    }

    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        match self {
            Self::Device(matrix) => matrix.check_device(argument, engine),
            Self::Distances(matrix) => matrix.check_device(argument, engine),
            _ => Ok(()),
        }
    }

    /// The rows in the host's memory, where the host engine keeps them; they are not empty.
    pub(crate) fn on_host(&self) -> Result<HostVectors<'a>> {
        Ok(match self {
            Self::Host(rows) => *rows,
            Self::Device(matrix) => matrix.on_host()?.into(),
            Self::Distances(matrix) => matrix.on_host()?.into(),
        })
    }

    /// The rows of a matrix on the host.
    pub(crate) fn host_vectors(&self) -> Option<HostVectors<'a>> {
        self.on_host().ok().filter(|_| self.on_device().is_none())
    }

    /// One row of a matrix on the host.
    pub(crate) fn host_row(&self, row: usize) -> Option<Values<'_>> {
        match self {
            Self::Host(rows) => Some(rows.row(row).into()),
            _ => None,
        }
    }

    /// Buffer and stride of rows on the device.
    pub(crate) fn on_device(&self) -> Option<(&Buffer, usize)> {
        match self {
            Self::Device(matrix) => matrix.buffer().ok().map(|buffer| (buffer, matrix.stride())),
            Self::Distances(matrix) => matrix.buffer().ok().map(|buffer| (buffer, matrix.rows())),
            _ => None,
        }
    }
}

/// Values on a device, of any element type, any count: in several buffers where one binding cannot hold them.
///
/// Unlike [`DeviceMatrix`](crate::DeviceMatrix) it may hold NaN and infinities.
#[derive(Debug, Clone)]
pub struct DeviceVector {
    engine: Engine,
    kind: ElementKind,
    memory: VectorMemory,
    len: u64,
}

/// The values of a vector, in buffers of a GPU or in the host's memory.
#[derive(Debug, Clone)]
enum VectorMemory {
    Gpu(Vec<Part>),
    Host(SharedElements),
}

#[derive(Debug, Clone)]
struct Part {
    buffer: Buffer,
    first: u64,
    len: u64,
}

impl DeviceVector {
    /// Every buffer of a vector but the last holds a multiple of this number of values.
    pub const BUFFER_UNIT: u64 = 1 << 15;

    /// A vector of the caller's buffers, one after another, with how many numbers each holds. Buffers need the usage
    /// `STORAGE`, and the wgpu device of `device`.
    ///
    /// # Errors
    /// [`Error::Argument`] when a buffer other than the last holds no multiple of [`DeviceVector::BUFFER_UNIT`] numbers, or
    /// a buffer is smaller than its numbers rounded up to a multiple of four.
    pub fn from_wgpu(device: &Device, kind: ElementKind, buffers: &[(Buffer, u64)]) -> Result<Self> {
        let mut parts = vec![];
        let mut first = 0;
        for (number, (buffer, len)) in buffers.iter().enumerate() {
            let argument = "buffers";
            if number + 1 < buffers.len() && !len.is_multiple_of(Self::BUFFER_UNIT) {
                let needed = format!("a multiple of {} numbers in buffer {number}", Self::BUFFER_UNIT);
                return Err(Error::argument(argument, needed, len));
            }
            let needed = len.checked_next_multiple_of(4).and_then(|len| len.checked_mul(kind.size() as u64));
            if needed.is_none_or(|bytes| bytes > buffer.size()) {
                let needed = format!("{len} numbers in buffer {number}, rounded up to a multiple of four");
                return Err(Error::argument(argument, needed, format!("{} bytes", buffer.size())));
            }
            if !buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
                let needed = format!("the usage STORAGE in buffer {number}");
                return Err(Error::argument(argument, needed, format!("{:?}", buffer.usage())));
            }
            if *len > 0 {
                parts.push(Part { buffer: buffer.clone(), first, len: *len });
            }
            first += len;
        }
        let engine = Engine::Gpu(device.gpu("a vector in buffers")?.clone());
        Ok(Self { engine, kind, memory: VectorMemory::Gpu(parts), len: first })
    }

    /// How many values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The buffers, for kernels that the caller records, and how many numbers each holds. None on the host engine.
    pub fn buffers(&self) -> impl Iterator<Item = (&Buffer, u64)> {
        self.parts().iter().map(|part| (&part.buffer, part.len))
    }

    fn parts(&self) -> &[Part] {
        match &self.memory {
            VectorMemory::Gpu(parts) => parts,
            _ => &[],
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element type.
    pub fn kind(&self) -> ElementKind {
        self.kind
    }

    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a vector", &self.engine)
    }

    /// The values from `at` on, up to `count` of them, as far as one binding holds them; `at` is a multiple of `block`,
    /// and so is the count unless it ends the vector.
    pub(crate) fn run(&self, at: u64, count: u64, block: u64) -> (BufferSlice<'_>, u64) {
        let parts = self.parts();
        let part = &parts[parts.partition_point(|part| part.first + part.len <= at)];
        let size = self.kind.size() as u64;
        let limit = self.engine.adapter().capabilities.max_binding_bytes / size / block * block;
        let count = count.min(part.first + part.len - at).min(limit);
        let slice =
            BufferSlice::range(&part.buffer, (at - part.first) * size, count.next_multiple_of(4) * size);
        (slice, count)
    }
}

impl Device {
    blocking_and_async! { self;
        /// Copies any number of values to the device, NaN and infinities included, to be reduced by several calls.
        ///
        /// # Errors
        /// [`Error::OutOfMemory`], [`Error::DeviceLost`].
        pub fn upload_vector<T: Element>(&self, values: &[T]) -> Result<DeviceVector> {
            self.upload_values(values.into())
        }
        async upload_vector_async;
    }

    fn upload_values<'a>(&'a self, values: Values<'a>) -> Boxed<'a, DeviceVector> {
        Box::pin(async move {
            let (kind, len) = (values.kind(), values.len());
            // Reductions share their work among threads.
            parallel::start_threads()?;
            let memory = match (&self.engine, values) {
                (_, Values::Device(vector)) => return Ok(vector.clone()),
                (Engine::Gpu(gpu), _) => VectorMemory::Gpu(upload(gpu, &values).await?),
                (Engine::Host(_), Values::Host(values)) => VectorMemory::Host(
                    with_elements!(values, values => SharedElements::of(copied(values, |x| x)?)),
                ),
            };
            Ok(DeviceVector { engine: self.engine.clone(), kind, memory, len })
        })
    }
}

/// Copies values on the host into as many buffers as they need.
async fn upload(gpu: &Gpu, values: &Values<'_>) -> Result<Vec<Part>> {
    let size = values.kind().size() as u64;
    let unit = DeviceVector::BUFFER_UNIT;
    let most = (gpu.segment_bytes() / size / unit).max(1) * unit;
    gpu.check_binding("values", unit * size)?;
    let (mut parts, mut first) = (vec![], 0);
    let bytes = values.host_bytes().unwrap_or_default();
    for piece in bytes.chunks(usize::try_from(most * size).unwrap_or(usize::MAX)) {
        let len = piece.len() as u64 / size;
        let buffer = gpu.create_storage("values", len.next_multiple_of(4) * size)?;
        gpu.upload_elements(&buffer, piece).await?;
        parts.push(Part { buffer, first, len });
        first += len;
    }
    gpu.check_faults().await?;
    Ok(parts)
}

/// Blocks of every size have to end where buffers do.
const _: () = assert!(DeviceVector::BUFFER_UNIT.is_multiple_of(Shape::LARGEST.block()));
