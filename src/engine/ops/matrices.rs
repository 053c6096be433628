//! Operations on matrices, on either engine: all distances of two sets, the smallest values of every row, and the time of an
//! empty launch.

use std::time::Duration;

use crate::engine::device::distance_matrix::DistanceMatrix;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::values::ValueRows;
use crate::engine::ops::{distances, top_k};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::Commands;
use crate::host;
use crate::metric::{Metric, Output};
use crate::neighbors::Neighbors;
use crate::options::distance::DistanceOptions;
use crate::platform::Instant;

impl Device {
    blocking_and_async! { self;
        /// The distance, or the similarity, of every query to every row, `[queries, rows]`, within
        /// [`Metric::error_bound`]. It stays on the device; [`Device::read`] fetches it.
        ///
        /// L2 is computed from the differences of elements, so that the relative error holds for near vectors, too.
        /// [`Device::distances_with`] computes with less error.
        ///
        /// # Errors
        /// [`Error::Argument`] for vectors of different dims or on another device, or similarities by L2;
        /// [`Error::Unsupported`] when `[queries, rows]` does not fit one binding of the adapter; [`Error::OutOfMemory`].
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
            self.all_distances(queries, rows, DistanceOptions::new(metric).output(output), None)
        }
        async distances_async;

        /// [`Device::distances`] with a choice of [`Precision`](crate::Precision).
        ///
        /// # Errors
        /// As there, and [`Error::Argument`] for [`Precision::Half`](crate::Precision::Half) by L2.
        ///
        /// ```no_run
        /// use nearfield::{Device, DistanceOptions, MatrixView, Metric, Precision};
        /// let device = Device::best()?;
        /// let vectors = device.upload(MatrixView::new(&[0.1f32, 0.2, 0.1, 0.3], 2)?)?;
        /// let options = DistanceOptions::new(Metric::L2Squared).precision(Precision::Compensated);
        /// let distances = device.distances_with(&vectors, &vectors, options)?;
        /// assert_eq!((distances.queries(), distances.rows()), (2, 2));
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn distances_with(
            &self,
            queries: &DeviceMatrix,
            rows: &DeviceMatrix,
            options: DistanceOptions,
        ) -> Result<DistanceMatrix> {
            self.all_distances(queries, rows, options, None)
        }
        async distances_with_async;

        /// [`Device::distances_with`] into the memory of an earlier call, which saves allocating and clearing it. New memory
        /// takes its place where it is too small, belongs to another device, or is shared with a clone.
        ///
        /// # Errors
        /// As there. Arguments are refused before `distances` changes; after an error of the device its values are undefined.
        ///
        /// ```no_run
        /// use nearfield::{Device, DistanceOptions, MatrixView, Metric};
        /// let device = Device::best()?;
        /// let rows = device.upload(MatrixView::new(&[3.0f32, 4.0, 0.0, 1.0], 2)?)?;
        /// let options = DistanceOptions::new(Metric::L2);
        /// let mut distances = device.distances_with(&rows, &rows, options)?;
        /// for batch in [[0.0f32, 0.0], [3.0, 0.0]] {
        ///     let queries = device.upload(MatrixView::new(&batch, 2)?)?;
        ///     device.distances_into(&queries, &rows, options, &mut distances)?;
        ///     println!("{:?}", device.read(&distances)?);
        /// }
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn distances_into(
            &self,
            queries: &DeviceMatrix,
            rows: &DeviceMatrix,
            options: DistanceOptions,
            distances: &mut DistanceMatrix,
        ) -> Result<()> {
            async {
                *distances = self.all_distances(queries, rows, options, Some(distances)).await?;
                Ok(())
            }
        }
        async distances_into_async;

        /// The k smallest values of each row with their column numbers as ids, ties by the smaller column, `[rows, up to k]`. NaN is
        /// never selected; infinities are values like others. Rows are a matrix on the host (of any element type), vectors on the device, or
        /// distances on the device.
        ///
        /// # Errors
        /// [`Error::Argument`] for k = 0, or rows on another device; [`Error::Budget`] when a row and its results exceed the device's
        /// scratch budget; [`Error::Unsupported`] when they exceed one binding of the adapter; [`Error::OutOfMemory`].
        ///
        /// ```no_run
        /// use nearfield::{Device, MatrixView};
        /// let device = Device::best()?;
        /// let smallest = device.top_k(MatrixView::new(&[3.0f32, 1.0, 2.0], 3)?, 2)?;
        /// let columns: Vec<u64> = smallest.row(0).iter().map(|hit| hit.id).collect();
        /// assert_eq!(columns, [1, 2]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn top_k<'v>(&self, rows: impl Into<ValueRows<'v>>, k: usize) -> Result<Neighbors> {
            self.top_k_boxed(rows.into(), k)
        }
        async top_k_async;
    }

    async fn all_distances(
        &self,
        queries: &DeviceMatrix,
        rows: &DeviceMatrix,
        options: DistanceOptions,
        kept: Option<&mut DistanceMatrix>,
    ) -> Result<DistanceMatrix> {
        options.check()?;
        if queries.dim() != rows.dim() {
            let needed = format!("dim {}, as the rows have", rows.dim());
            return Err(Error::argument("queries", needed, queries.dim()));
        }
        queries.check_device("queries", &self.engine)?;
        rows.check_device("rows", &self.engine)?;
        match &self.engine {
            Engine::Gpu(gpu) => distances::on_gpu(gpu, queries, rows, options, kept).await,
            Engine::Host(_) => {
                let counts = [queries.rows(), rows.rows()];
                let operands = [queries.normed_on_host()?, rows.normed_on_host()?];
                let mut new = vec![];
                let values = kept.and_then(DistanceMatrix::reusable_values).unwrap_or(&mut new);
                let before = values.len();
                let done = host::make_room(counts, values)
                    .and_then(|()| host::distances(operands[0], operands[1], options, values));
                if let Err(error) = done {
                    // The matrix that has them keeps its shape.
                    values.resize(before, 0.0);
                    return Err(error);
                }
                Ok(DistanceMatrix::in_memory(&self.engine, std::mem::take(values), counts))
            }
        }
    }

    fn top_k_boxed<'a>(&'a self, rows: ValueRows<'a>, k: usize) -> Boxed<'a, Neighbors> {
        Box::pin(async move {
            rows.kind().check_numbers("rows")?;
            rows.check_device("rows", &self.engine)?;
            if k == 0 {
                return Err(Error::argument("k", "at least 1", k));
            }
            match &self.engine {
                _ if rows.length() == 0 => {
                    let mut nothing = Neighbors::default();
                    (0..rows.rows()).for_each(|_| nothing.push_row(vec![]));
                    Ok(nothing)
                }
                Engine::Gpu(gpu) => top_k::top_k(gpu, rows, k).await,
                Engine::Host(host) => {
                    let most = u32::MAX as usize;
                    if rows.length() > most {
                        let what = format!("selecting {k} of {} values", rows.length());
                        let needed = format!("rows of up to {most} values");
                        return Err(Error::unsupported(what, needed, &host.adapter));
                    }
                    host::top_k(rows.on_host()?, k, host.options.budget_bytes)
                }
            }
        })
    }

    /// How long a launch and a readback take: the least of a few. Nothing on the host engine.
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
}
