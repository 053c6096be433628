//! Operations on matrices of the device: all distances of two sets.

use std::sync::Arc;

use super::device::{Device, DeviceMatrix, check_same};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, words};
use crate::kernels::distance_pairs::{self, Output};
use crate::metric::Metric;

/// Distances on the device, `[queries, rows]`, f32.
#[derive(Debug, Clone)]
pub struct DistanceMatrix {
    gpu: Arc<Gpu>,
    buffer: wgpu::Buffer,
    queries: u32,
    rows: u32,
}

impl DistanceMatrix {
    /// An error when the matrix lives on another device.
    pub(super) fn check_device(&self, argument: &'static str, gpu: &Arc<Gpu>) -> Result<()> {
        check_same(argument, "a matrix", &self.gpu, gpu)
    }

    /// How many queries.
    pub fn queries(&self) -> usize {
        self.queries as usize
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The buffer, for kernels that the caller records.
    pub fn as_slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.buffer)
    }
}

impl Device {
    /// The distance, or the similarity, of every query to every row, in the direct form and by the metric's own
    /// precision. Stays on the device; [`Device::read`] fetches it.
    ///
    /// # Errors
    /// [`Error::Argument`] for vectors of different dims, or similarities by L2; [`Error::Unsupported`] when
    /// `[queries, rows]` does not fit one binding of the adapter; [`Error::OutOfMemory`].
    ///
    /// ```no_run
    /// use nearfield::{Device, MatrixView, Metric, Output};
    /// let device = Device::best()?;
    /// let queries = device.upload(MatrixView::new(&[0.0f32, 0.0], 2)?)?;
    /// let rows = device.upload(MatrixView::new(&[3.0f32, 4.0, 0.0, 1.0], 2)?)?;
    /// let distances = device.distances(&queries, &rows, Metric::L2, Output::Distance)?;
    /// assert_eq!(device.read(&distances)?, [5.0, 1.0]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn distances(
        &self,
        queries: &DeviceMatrix,
        rows: &DeviceMatrix,
        metric: Metric,
        output: Output,
    ) -> Result<DistanceMatrix> {
        if queries.dim() != rows.dim() {
            return Err(Error::argument(
                "queries",
                format!("dim {}, as the rows have", rows.dim()),
                queries.dim(),
            ));
        }
        let gpu = self.gpu();
        queries.check_device("queries", gpu)?;
        rows.check_device("rows", gpu)?;
        // Reductions read whole vectors of four.
        let bytes = (queries.rows() as u64 * rows.rows() as u64 * 4).next_multiple_of(16);
        gpu.check_binding("distances", bytes)?;
        let buffer = gpu.create_storage("distances", bytes)?;
        let mut commands = Commands::new(gpu, None);
        let pairs = distance_pairs::Pairs {
            metric,
            unit_vectors: false,
            output,
            queries: queries.as_slice(),
            query_count: queries.rows() as u32,
            query_stride: queries.stride() as u32,
            rows: rows.as_slice(),
            row_count: rows.rows() as u32,
            row_stride: rows.stride() as u32,
            dim: rows.dim() as u32,
            distances: BufferSlice::all(&buffer),
            distance_stride: rows.rows() as u32,
        };
        distance_pairs::encode(&mut commands, &pairs)?;
        commands.submit();
        gpu.check_faults()?;
        let gpu = gpu.clone();
        Ok(DistanceMatrix { gpu, buffer, queries: queries.rows() as u32, rows: rows.rows() as u32 })
    }

    /// Fetches distances from the device, `[queries, rows]`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::OutOfMemory`].
    pub fn read(&self, distances: &DistanceMatrix) -> Result<Vec<f32>> {
        self.block_on(self.read_async(distances))
    }

    /// [`Device::read`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn read_async(&self, distances: &DistanceMatrix) -> Result<Vec<f32>> {
        let bytes = u64::from(distances.queries) * u64::from(distances.rows) * 4;
        let mut values = Vec::with_capacity(distances.queries() * distances.rows());
        let commands = Commands::new(self.gpu(), None);
        commands
            .read_each(&[(&distances.buffer, 0, bytes)], |_, bytes| values.extend(words::<f32>(bytes)))
            .await?;
        Ok(values)
    }
}
