//! The queries of a call, wherever they are.

use crate::engine::device::handle::{Device, DeviceMatrix};
use crate::error::{Error, Result};
use crate::gpu::{Commands, Gpu, RowLayout};
use crate::host;
use crate::kernels::norms;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Query vectors: a view of the host's memory, f32 or f16, or a matrix on the index's device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Queries<'a> {
    /// f32 on the host.
    F32(MatrixView<'a, f32>),
    /// f16 on the host.
    F16(MatrixView<'a, half::f16>),
    /// On the device.
    Device(&'a DeviceMatrix),
}

impl<'a> From<&'a DeviceMatrix> for Queries<'a> {
    fn from(queries: &'a DeviceMatrix) -> Self {
        Self::Device(queries)
    }
}

/// Which queries of a call.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    Range(std::ops::Range<usize>),
    List(Vec<usize>),
}

impl Numbers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Range(range) => Box::new(range.clone()),
            Self::List(list) => Box::new(list.iter().copied()),
        }
    }

    /// The same in batches of up to `most`.
    pub(crate) fn batches(&self, most: usize) -> Vec<Self> {
        match self {
            Self::Range(range) => {
                let starts = range.clone().step_by(most.max(1));
                starts.map(|start| Self::Range(start..range.end.min(start + most))).collect()
            }
            Self::List(list) => list.chunks(most.max(1)).map(|part| Self::List(part.to_vec())).collect(),
        }
    }

    /// Runs of neighbouring queries, as (place in the batch, numbers of the call).
    fn runs(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        match self {
            Self::Range(range) => vec![(0, range.clone())],
            Self::List(list) => list.iter().map(|&number| number..number + 1).enumerate().collect(),
        }
    }

    /// The error for queries that the device refused, with their numbers in the call.
    pub(crate) fn check(&self, refused: &[u8]) -> Result<()> {
        let number = |place: u64| match self {
            Self::Range(range) => range.start as u64 + place,
            Self::List(list) => list.get(place as usize).map_or(place, |&number| number as u64),
        };
        norms::check("queries", refused).map_err(|error| match error {
            Error::NotFinite { argument, row } => Error::NotFinite { argument, row: number(row) },
            Error::NormOutOfRange { argument, row } => Error::NormOutOfRange { argument, row: number(row) },
            other => other,
        })
    }
}

impl Queries<'_> {
    /// How many there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::F32(view) => view.rows(),
            Self::F16(view) => view.rows(),
            Self::Device(matrix) => matrix.rows(),
        }
    }

    /// Elements a query.
    pub fn dim(&self) -> usize {
        match self {
            Self::F32(view) => view.dim(),
            Self::F16(view) => view.dim(),
            Self::Device(matrix) => matrix.dim(),
        }
    }

    /// An error when they live on another device.
    pub(crate) fn check_device(&self, device: &Device) -> Result<()> {
        match self {
            Self::Device(matrix) => matrix.check_device("queries", &device.engine),
            _ => Ok(()),
        }
    }

    /// Looks at queries of which no kernel will: those that no row can answer.
    pub(crate) fn check_values(&self) -> Result<()> {
        match self {
            Self::F32(view) => host::checked("queries", *view).map(drop),
            Self::F16(view) => host::checked("queries", *view).map(drop),
            // They were looked at when they were copied there.
            Self::Device(_) => Ok(()),
        }
    }

    /// Copies queries to the start of a buffer, as f32.
    pub(crate) async fn copy_to(&self, gpu: &Gpu, numbers: &Numbers, buffer: &wgpu::Buffer) -> Result<()> {
        match self {
            Self::F32(view) => upload(gpu, *view, numbers, buffer).await,
            Self::F16(view) => upload(gpu, *view, numbers, buffer).await,
            Self::Device(matrix) => {
                let row_bytes = RowLayout::padded(ElementKind::F32, self.dim()).row_bytes();
                let mut commands = Commands::new(gpu, None);
                for (place, run) in numbers.runs() {
                    let from = (matrix.buffer()?, run.start as u64 * row_bytes);
                    commands.copy(from, (buffer, place as u64 * row_bytes), run.len() as u64 * row_bytes);
                }
                commands.submit();
                Ok(())
            }
        }
    }
}

async fn upload<T: Element>(
    gpu: &Gpu,
    view: MatrixView<'_, T>,
    numbers: &Numbers,
    buffer: &wgpu::Buffer,
) -> Result<()> {
    let layout = RowLayout::padded(ElementKind::F32, view.dim());
    for (place, run) in numbers.runs() {
        let offset = place as u64 * layout.row_bytes();
        gpu.upload_rows(buffer, offset, layout, view.slice(run), |_| ()).await?;
    }
    Ok(())
}
