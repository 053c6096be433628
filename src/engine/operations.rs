//! Operations on matrices of the device: all distances of two sets, and the smallest elements of rows.

use std::sync::Arc;

use super::device::{Device, DeviceMatrix, check_same};
use super::plan::{budget_for, usable};
use super::search::decode;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Request, words};
use crate::kernels::distance_pairs::{self, Output};
use crate::kernels::select_k;
use crate::matrix::MatrixView;
use crate::metric::Metric;
use crate::neighbors::Neighbors;

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

    /// The k smallest values of each row of a host matrix with their column numbers as ids, ties by the smaller
    /// column, `[rows, up to k]`. NaN is never selected; infinities are values like others.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0; [`Error::Budget`] when a row and its results exceed the device's scratch budget;
    /// [`Error::OutOfMemory`].
    ///
    /// ```no_run
    /// use nearfield::{Device, MatrixView};
    /// let device = Device::best()?;
    /// let smallest = device.top_k(MatrixView::new(&[3.0f32, 1.0, 2.0], 3)?, 2)?;
    /// let columns: Vec<u64> = smallest.row(0).iter().map(|hit| hit.id).collect();
    /// assert_eq!(columns, [1, 2]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn top_k(&self, matrix: MatrixView<'_, f32>, k: usize) -> Result<Neighbors> {
        self.block_on(self.top_k_async(matrix, k))
    }

    /// [`Device::top_k`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn top_k_async(&self, matrix: MatrixView<'_, f32>, k: usize) -> Result<Neighbors> {
        let gpu = self.gpu();
        if k == 0 {
            return Err(Error::argument("k", "at least 1", k));
        }
        let length = matrix.dim() as u64;
        let k = length.min(k as u64);
        let many = k > u64::from(select_k::SORTED_MAX);
        let row_bytes = length * 4 + k * 12 * if many { 2 } else { 1 } + 4;
        let budget = self.options().budget_bytes;
        let binding = self.capabilities().max_binding_bytes;
        // With room for lists, where the budget has it for one row.
        let lists = |rows: u64| select_k::scratch_bytes(rows as u32, length as u32, k as u32);
        let list_bytes: u64 = lists(1).iter().sum();
        let has_lists = usable(budget) >= row_bytes + list_bytes;
        let with_lists = row_bytes + if has_lists { list_bytes } else { 0 };
        let at_once = (usable(budget) / with_lists)
            .min(binding / (length * 4).max(k * 8))
            .min(self.capabilities().max_workgroups.into());
        if at_once == 0 {
            let needed = budget_for(row_bytes);
            return Err(Error::Budget {
                purpose: format!("selecting {k} of {length} values"),
                needed,
                budget,
            });
        }
        let mut smallest = Neighbors::with_capacity(matrix.rows(), k as usize);
        let mut start = 0;
        while start < matrix.rows() {
            let end = matrix.rows().min(start + at_once as usize);
            let rows = (end - start) as u64;
            let spare = if many { rows * k } else { 0 };
            let request = |purpose, bytes| Request { purpose, bytes };
            let room = if has_lists { lists(rows) } else { [0; 3] };
            let scratch = gpu
                .reserve(&[
                    request("values", rows * length * 4),
                    request("selected keys", rows * k * 4),
                    request("selected ids", rows * k * 8),
                    request("selected counts", rows * 4),
                    request("spare keys", spare * 4),
                    request("spare ids", spare * 8),
                    request("thresholds", room[0]),
                    request("lists", room[1]),
                    request("merged lists", room[2]),
                ])
                .await?;
            let values = &matrix.values()[start * matrix.dim()..end * matrix.dim()];
            gpu.upload_bytes(&scratch[0], 0, bytemuck::cast_slice(values)).await?;
            let mut commands = Commands::new(gpu, None);
            let place = |keys: usize, ids: usize| select_k::Selected {
                keys: BufferSlice::all(&scratch[keys]),
                ids: BufferSlice::all(&scratch[ids]),
            };
            let select = select_k::Select {
                keys: BufferSlice::all(&scratch[0]),
                ids: None,
                floats: true,
                rows: select_k::Rows::Equal { length: length as u32, pitch: length as u32 },
                count: rows as u32,
                k: k as u32,
                selected: place(1, 2),
                selected_pitch: k as u32,
                selected_counts: BufferSlice::all(&scratch[3]),
                spare: many.then(|| place(4, 5)),
                scratch: has_lists.then(|| select_k::Scratch {
                    states: BufferSlice::all(&scratch[6]),
                    lists: BufferSlice::all(&scratch[7]),
                    merged: BufferSlice::all(&scratch[8]),
                }),
            };
            select_k::encode(&mut commands, &select)?;
            let parts = commands
                .read(&[
                    (&scratch[1], 0, rows * k * 4),
                    (&scratch[2], 0, rows * k * 8),
                    (&scratch[3], 0, rows * 4),
                ])
                .await?;
            // Keys stand for the values themselves.
            let (k, as_they_are) = (k as usize, Metric::L2Squared);
            let found = decode(as_they_are, k, k, &parts[0], &parts[1], &parts[2]);
            found.into_iter().for_each(|row| smallest.push_row(row));
            start = end;
        }
        Ok(smallest)
    }
}
