//! Operations on matrices of the device: all distances of two sets.

use std::time::{Duration, Instant};

use crate::engine::device::handle::{Device, DeviceMatrix, Engine, Numbers};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, words};
use crate::host;
use crate::kernels::distance_pairs::{self, Output};
use crate::matrix::MatrixView;
use crate::metric::Metric;

/// Distances on the device, `[queries, rows]`, f32.
#[derive(Debug, Clone)]
pub struct DistanceMatrix {
    engine: Engine,
    numbers: Numbers,
    queries: usize,
    rows: usize,
}

impl DistanceMatrix {
    /// An error when the matrix lives on another device.
    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a matrix", &self.engine)
    }

    /// The buffer of a GPU.
    pub(crate) fn buffer(&self) -> Result<&wgpu::Buffer> {
        self.numbers.buffer()
    }

    /// The distances of a host engine, `[queries, rows]`.
    pub(crate) fn on_host(&self) -> Result<MatrixView<'_, f32>> {
        MatrixView::new(self.numbers.on_host(), self.rows)
    }

    /// How many queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The buffer, for kernels that the caller records.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the host engine, which has no buffers.
    pub fn as_slice(&self) -> Result<BufferSlice<'_>> {
        Ok(BufferSlice::all(self.buffer()?))
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
        queries.check_device("queries", &self.engine)?;
        rows.check_device("rows", &self.engine)?;
        let gpu = match &self.engine {
            Engine::Gpu(gpu) => gpu,
            Engine::Host(_) => {
                distance_pairs::check(metric, output)?;
                let values = host::distances(queries.on_host()?, rows.on_host()?, metric, output)?;
                let numbers = Numbers::Host(values.into());
                return Ok(DistanceMatrix {
                    engine: self.engine.clone(),
                    numbers,
                    queries: queries.rows(),
                    rows: rows.rows(),
                });
            }
        };
        // Reductions read whole vectors of four.
        let bytes = (queries.rows() as u64 * rows.rows() as u64 * 4).next_multiple_of(16);
        gpu.check_binding("distances", bytes)?;
        let buffer = gpu.create_storage("distances", bytes)?;
        let mut commands = Commands::new(gpu, None);
        let pairs = distance_pairs::Pairs {
            metric,
            unit_vectors: false,
            output,
            queries: queries.as_slice()?,
            query_count: queries.rows() as u32,
            query_stride: queries.stride() as u32,
            rows: rows.as_slice()?,
            row_count: rows.rows() as u32,
            row_stride: rows.stride() as u32,
            dim: rows.dim() as u32,
            distances: BufferSlice::all(&buffer),
            distance_stride: rows.rows() as u32,
        };
        distance_pairs::encode(&mut commands, &pairs)?;
        commands.submit();
        gpu.check_faults()?;
        let (queries, rows) = (queries.rows(), rows.rows());
        Ok(DistanceMatrix { engine: self.engine.clone(), numbers: Numbers::Gpu(buffer), queries, rows })
    }

    /// Fetches vectors from the device, `[rows, dim]`.
    pub(crate) async fn read_matrix(&self, matrix: &DeviceMatrix) -> Result<Vec<f32>> {
        matrix.check_device("rows", &self.engine)?;
        let gpu = match &self.engine {
            Engine::Gpu(gpu) => gpu,
            Engine::Host(_) => return Ok(matrix.on_host()?.values().to_vec()),
        };
        let (dim, stride) = (matrix.dim(), matrix.stride());
        let mut padded = Vec::with_capacity(matrix.rows() * stride);
        let range = (matrix.buffer()?, 0, (matrix.rows() * stride * 4) as u64);
        Commands::new(gpu, None).read_each(&[range], |_, bytes| padded.extend(words::<f32>(bytes))).await?;
        Ok(padded.chunks_exact(stride).flat_map(|row| row[..dim].iter().copied()).collect())
    }

    /// How long a launch and a readback take: the least of some.
    pub(crate) async fn latency(&self) -> Result<Duration> {
        let Engine::Gpu(gpu) = &self.engine else { return Ok(Duration::ZERO) };
        let buffer = gpu.create_storage("latency", 16)?;
        let mut least = Duration::MAX;
        for _ in 0..8 {
            let started = Instant::now();
            let mut commands = Commands::new(gpu, None);
            commands.clear(&buffer, 0, 16);
            commands.read(&[(&buffer, 0, 16)]).await?;
            least = least.min(started.elapsed());
        }
        Ok(least)
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
        let gpu = match &self.engine {
            Engine::Gpu(gpu) => gpu,
            Engine::Host(_) => return Ok(distances.numbers.on_host().to_vec()),
        };
        let count = distances.queries * distances.rows;
        let mut values = Vec::with_capacity(count);
        let range = (distances.buffer()?, 0, count as u64 * 4);
        Commands::new(gpu, None).read_each(&[range], |_, bytes| values.extend(words::<f32>(bytes))).await?;
        Ok(values)
    }
}
