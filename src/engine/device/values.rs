//! Numbers to reduce, wherever they are: vectors of any length, and rows.

use std::sync::Arc;

use crate::engine::device::handle::{Device, DeviceMatrix, Engine};
use crate::engine::ops::distances::DistanceMatrix;
use crate::error::{Error, Result};
use crate::gpu::BufferSlice;
use crate::kernels::reduce_blocks::Shape;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Numbers to reduce: on the host, f32 or f16, or on the device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Values<'a> {
    /// f32 on the host.
    F32(&'a [f32]),
    /// f16 on the host.
    F16(&'a [half::f16]),
    /// On the device.
    Device(&'a DeviceVector),
}

impl<'a> From<&'a [f32]> for Values<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a Vec<f32>> for Values<'a> {
    fn from(values: &'a Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Values<'a> {
    fn from(values: &'a [f32; N]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a [half::f16]> for Values<'a> {
    fn from(values: &'a [half::f16]) -> Self {
        Self::F16(values)
    }
}

impl<'a, const N: usize> From<&'a [half::f16; N]> for Values<'a> {
    fn from(values: &'a [half::f16; N]) -> Self {
        Self::F16(values)
    }
}

impl<'a> From<&'a Vec<half::f16>> for Values<'a> {
    fn from(values: &'a Vec<half::f16>) -> Self {
        Self::F16(values)
    }
}

impl<'a> From<&'a DeviceVector> for Values<'a> {
    fn from(values: &'a DeviceVector) -> Self {
        Self::Device(values)
    }
}

impl<'a> Values<'a> {
    /// How many numbers.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::F32(values) => values.len() as u64,
            Self::F16(values) => values.len() as u64,
            Self::Device(vector) => vector.len,
        }
    }

    pub(crate) fn kind(&self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
            Self::Device(vector) => vector.kind,
        }
    }

    /// The numbers in the host's memory, where a host engine keeps them.
    pub(crate) fn on_host(&self) -> Self {
        match self {
            Self::Device(vector) => vector.on_host().unwrap_or(*self),
            _ => *self,
        }
    }

    /// The bytes of numbers on the host.
    pub(crate) fn host_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::F32(values) => Some(bytemuck::cast_slice(values)),
            Self::F16(values) => Some(bytemuck::cast_slice(values)),
            Self::Device(_) => None,
        }
    }
}

/// Rows to reduce, each by itself: on the host, f32 or f16, or on the device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ValueRows<'a> {
    /// f32 on the host.
    F32(MatrixView<'a, f32>),
    /// f16 on the host.
    F16(MatrixView<'a, half::f16>),
    /// Vectors on the device.
    Device(&'a DeviceMatrix),
    /// Distances on the device, a row for each query.
    Distances(&'a DistanceMatrix),
}

impl<'a> From<MatrixView<'a, f32>> for ValueRows<'a> {
    fn from(rows: MatrixView<'a, f32>) -> Self {
        Self::F32(rows)
    }
}

impl<'a> From<MatrixView<'a, half::f16>> for ValueRows<'a> {
    fn from(rows: MatrixView<'a, half::f16>) -> Self {
        Self::F16(rows)
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
            Self::F32(view) => view.rows(),
            Self::F16(view) => view.rows(),
            Self::Device(matrix) => matrix.rows(),
            Self::Distances(matrix) => matrix.queries(),
        }
    }

    /// Numbers a row.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::F32(view) => view.dim(),
            Self::F16(view) => view.dim(),
            Self::Device(matrix) => matrix.dim(),
            Self::Distances(matrix) => matrix.rows(),
        }
    }

    pub(crate) fn kind(&self) -> ElementKind {
        match self {
            Self::F16(_) => ElementKind::F16,
            _ => ElementKind::F32,
        }
    }

    /// Where they lie, and how. Operands of a product have to lie alike: a kernel reads them at the same places.
    pub(crate) fn place(&self) -> &'static str {
        match self {
            Self::F32(_) | Self::F16(_) => "rows on the host",
            Self::Device(_) => "vectors on the device",
            Self::Distances(_) => "distances on the device",
        }
    }

    /// An error when they live on another device.
    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        match self {
            Self::Device(matrix) => matrix.check_device(argument, engine),
            Self::Distances(matrix) => matrix.check_device(argument, engine),
            _ => Ok(()),
        }
    }

    /// The rows in the host's memory, where a host engine keeps them; they are not empty.
    pub(crate) fn on_host(&self) -> Result<ValueRows<'a>> {
        Ok(match self {
            Self::Device(matrix) => Self::F32(matrix.on_host()?),
            Self::Distances(matrix) => Self::F32(matrix.on_host()?),
            _ => *self,
        })
    }

    /// One row of a matrix on the host.
    pub(crate) fn host_row(&self, row: usize) -> Option<Values<'_>> {
        match self {
            Self::F32(view) => Some(Values::F32(view.row(row))),
            Self::F16(view) => Some(Values::F16(view.row(row))),
            _ => None,
        }
    }

    /// Buffer and stride of rows on the device.
    pub(crate) fn on_device(&self) -> Option<(&wgpu::Buffer, usize)> {
        match self {
            Self::Device(matrix) => matrix.buffer().ok().map(|buffer| (buffer, matrix.stride())),
            Self::Distances(matrix) => matrix.buffer().ok().map(|buffer| (buffer, matrix.rows())),
            _ => None,
        }
    }
}

/// Numbers on a device, f32 or f16, any count: in several buffers where one binding cannot hold them.
///
/// Unlike [`DeviceMatrix`](crate::DeviceMatrix) it may hold NaN and infinities.
#[derive(Debug, Clone)]
pub struct DeviceVector {
    engine: Engine,
    kind: ElementKind,
    numbers: Kept,
    len: u64,
}

/// Where the numbers of a vector are.
#[derive(Debug, Clone)]
enum Kept {
    Gpu(Vec<Part>),
    F32(Arc<[f32]>),
    F16(Arc<[half::f16]>),
}

#[derive(Debug, Clone)]
struct Part {
    buffer: wgpu::Buffer,
    first: u64,
    len: u64,
}

impl DeviceVector {
    /// Every buffer of a vector but the last holds a multiple of so many numbers.
    pub const BUFFER_UNIT: u64 = 1 << 15;

    /// A vector of the caller's buffers, one after another, with how many numbers each holds. Buffers need the usage
    /// `STORAGE`, and the wgpu device of `device`.
    ///
    /// # Errors
    /// [`Error::Argument`] when a buffer other than the last holds no multiple of [`DeviceVector::BUFFER_UNIT`] numbers, or
    /// a buffer is smaller than its numbers rounded up to a multiple of four.
    pub fn from_wgpu(device: &Device, kind: ElementKind, buffers: &[(wgpu::Buffer, u64)]) -> Result<Self> {
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
        let engine = Engine::from(device.gpu("a vector in buffers")?);
        Ok(Self { engine, kind, numbers: Kept::Gpu(parts), len: first })
    }

    /// How many numbers.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The buffers, for kernels that the caller records, and how many numbers each holds. None on the host engine.
    pub fn buffers(&self) -> impl Iterator<Item = (&wgpu::Buffer, u64)> {
        self.parts().iter().map(|part| (&part.buffer, part.len))
    }

    fn parts(&self) -> &[Part] {
        match &self.numbers {
            Kept::Gpu(parts) => parts,
            _ => &[],
        }
    }

    /// The numbers in the host's memory, where they are there.
    pub(crate) fn on_host(&self) -> Option<Values<'_>> {
        match &self.numbers {
            Kept::Gpu(_) => None,
            Kept::F32(values) => Some(Values::F32(values)),
            Kept::F16(values) => Some(Values::F16(values)),
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

    /// An error when the vector lives on another device.
    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a vector", &self.engine)
    }

    /// The numbers from `at` on, up to `count` of them, as far as one binding holds them; `at` is a multiple of `block`,
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
    /// Copies numbers to the device, to be reduced by several calls. Any number of them, NaN and infinities included.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::DeviceLost`].
    pub fn upload_vector<T: Element>(&self, values: &[T]) -> Result<DeviceVector> {
        self.block_on(self.upload_vector_async(values))
    }

    /// [`Device::upload_vector`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn upload_vector_async<T: Element>(&self, values: &[T]) -> Result<DeviceVector> {
        let gpu = match &self.engine {
            Engine::Gpu(gpu) => gpu,
            Engine::Host(_) => {
                let numbers = match T::KIND {
                    ElementKind::F32 => Kept::F32(bytemuck::cast_slice::<T, f32>(values).into()),
                    ElementKind::F16 => Kept::F16(bytemuck::cast_slice::<T, half::f16>(values).into()),
                };
                let (engine, len) = (self.engine.clone(), values.len() as u64);
                return Ok(DeviceVector { engine, kind: T::KIND, numbers, len });
            }
        };
        let size = T::KIND.size() as u64;
        let unit = DeviceVector::BUFFER_UNIT;
        let most = (gpu.segment_bytes() / size / unit).max(1) * unit;
        gpu.check_binding("values", unit * size)?;
        let (mut parts, mut first) = (vec![], 0);
        for piece in values.chunks(usize::try_from(most).unwrap_or(usize::MAX)) {
            let len = piece.len() as u64;
            let buffer = gpu.create_storage("values", len.next_multiple_of(4) * size)?;
            gpu.upload_elements(&buffer, bytemuck::cast_slice(piece)).await?;
            parts.push(Part { buffer, first, len });
            first += len;
        }
        gpu.check_faults()?;
        Ok(DeviceVector { engine: self.engine.clone(), kind: T::KIND, numbers: Kept::Gpu(parts), len: first })
    }
}

/// Blocks of every size have to end where buffers do.
const _: () = assert!(DeviceVector::BUFFER_UNIT.is_multiple_of(Shape::LARGEST.block()));
