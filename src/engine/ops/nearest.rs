//! The nearest rows of a matrix, without an index.

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::contract::Rows;
use crate::engine::rows::on_host::ListedRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::request::SearchRequest;
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::host::HostRows;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::residency::Residency;

impl Device {
    blocking_and_async! { self;
        /// The k nearest rows of each query, `[queries, up to k]`, nearest first, ties by the smaller row number: brute force
        /// without an index. Ids are row numbers. Fewer than k rows give shorter answers.
        ///
        /// The answers are those of a [`Flat`](crate::Flat) of these rows, bit for bit, and are computed in pieces that fit the
        /// device's scratch budget. Queries and rows are a [`MatrixView`](crate::MatrixView), a
        /// [`Matrix`](crate::Matrix), or a [`DeviceMatrix`] on this device. Rows on the host are uploaded first, so rows that
        /// several calls search belong on the device, and rows that stay for many searches into a `Flat`, which keeps an 8-bit
        /// copy besides and searches large batches several times as fast.
        ///
        /// # Errors
        /// [`Error::Argument`] for k = 0, vectors of different dims, or a matrix on another device; [`Error::NotFinite`] and
        /// [`Error::NormOutOfRange`] with the number of a query or row; [`Error::Budget`] when a query and its results exceed
        /// the device's scratch budget; [`Error::Unsupported`] when the rows do not fit one binding of the adapter;
        /// [`Error::OutOfMemory`].
        ///
        /// ```no_run
        /// use nearfield::{Device, MatrixView, Metric};
        /// let device = Device::best()?;
        /// let rows = device.upload(MatrixView::new(&[0.0f32, 5.0, 1.0], 1)?)?;
        /// let found = device.nearest(MatrixView::new(&[0.75f32], 1)?, &rows, Metric::L2, 2)?;
        /// let numbers: Vec<u64> = found.row(0).iter().map(|hit| hit.id).collect();
        /// assert_eq!(numbers, [2, 0]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn nearest<'v>(
            &self,
            queries: impl Into<Vectors<'v>>,
            rows: impl Into<Vectors<'v>>,
            metric: Metric,
            k: usize,
        ) -> Result<Neighbors> {
            self.nearest_boxed(queries.into(), rows.into(), metric, k)
        }
        async nearest_async;
    }

    fn nearest_boxed<'a>(
        &'a self,
        queries: Vectors<'a>,
        rows: Vectors<'a>,
        metric: Metric,
        k: usize,
    ) -> Boxed<'a, Neighbors> {
        Box::pin(async move {
            if k == 0 {
                return Err(Error::argument("k", "at least 1", k));
            }
            if queries.dim() != rows.dim() {
                let needed = format!("dim {}, as the rows have", rows.dim());
                return Err(Error::argument("queries", needed, queries.dim()));
            }
            metric.check_numbers()?;
            queries.kind().check_numbers("queries")?;
            queries.check_device("queries", &self.engine)?;
            rows.check_device("rows", &self.engine)?;
            let integral = queries.kind().is_integer() && rows.kind().is_integer();
            let rows = self.rows_of_vectors(rows, metric).await?;
            let nearest = SearchRequest::nearest(metric, k, self.options().budget_bytes);
            let request = SearchRequest { integral, ..nearest };
            let found = rows.search(&queries, &request).await?;
            Ok(found.with_roots(metric, Residency::Device).neighbors)
        })
    }

    /// Vectors as rows that can be searched: uploaded, where they are on the host.
    pub(crate) async fn rows_of_vectors(&self, rows: Vectors<'_>, metric: Metric) -> Result<Box<dyn Rows>> {
        match rows {
            Vectors::Device(matrix) => self.rows_of(matrix, metric).await,
            Vectors::Host(rows) => self.rows_of(&self.upload_boxed(rows).await?, metric).await,
        }
    }

    /// The vectors of a matrix as rows that can be searched.
    async fn rows_of(&self, matrix: &DeviceMatrix, metric: Metric) -> Result<Box<dyn Rows>> {
        let dim = matrix.dim();
        Error::check_slots(matrix.rows() as u64)?;
        Ok(match &self.engine {
            Engine::Gpu(gpu) => {
                let norms = matrix.norms()?.buffer.clone();
                let buffers = [matrix.buffer()?.clone(), norms, matrix.numbers(gpu).await?];
                Box::new(GpuRows::of_matrix(gpu, dim, matrix.rows() as u32, buffers)?) as _
            }
            Engine::Host(host) => {
                let (values, squared) = (matrix.shared_on_host(), matrix.normed_on_host()?.squared);
                let rows = HostRows::of_matrix(host.clone(), metric, dim, values, squared)?;
                Box::new(ListedRows::from(rows)) as _
            }
        })
    }
}
