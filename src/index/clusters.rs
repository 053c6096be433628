//! `Clusters`: trained centroids, and the nearest one of any row.

use crate::elements::MatrixView;
use crate::engine::{Device, DeviceCentroids, GivenCentroids, Sample, Vectors};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;

/// Rows that are assigned at a time, so that their neighbours take little memory.
const ROWS: usize = 1 << 20;

/// The result of [`KMeans`](crate::KMeans).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Clusters {
    /// The centroids, `[clusters, dim]`.
    pub centroids: Vec<f32>,
    /// Elements per centroid.
    pub dim: usize,
    /// The metric between rows and centroids: squared L2 or cosine.
    pub metric: Metric,
    /// The number of the nearest centroid of every row, `[rows]`, ties to the smaller number; empty with
    /// [`KMeans::assign_all`](crate::KMeans::assign_all) off.
    pub assignments: Vec<u32>,
    /// The sum of the distances (squared L2 or cosine) of all rows to their nearest centroid; of the training rows with
    /// [`KMeans::assign_all`](crate::KMeans::assign_all) off.
    pub inertia: f64,
    /// The sum of the training rows' distances to their nearest centroid before each iteration.
    pub history: Vec<f64>,
    /// The numbers of the training rows, ascending: all rows, or a sample.
    pub trained_on: Vec<u64>,
}

impl Clusters {
    /// How many centroids there are.
    pub fn count(&self) -> usize {
        self.centroids.len().checked_div(self.dim).unwrap_or(0)
    }

    blocking_and_async! { device;
        /// The number of the nearest centroid of each of these rows, `[rows]`, ties to the smaller number.
        ///
        /// # Errors
        /// [`Error::Argument`] for another dim or a matrix on another device; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with
        /// the row's number; [`Error::OutOfMemory`]; [`Error::Budget`]; [`Error::DeviceLost`].
        ///
        /// ```no_run
        /// use nearfield::{Device, KMeans, MatrixView, Metric};
        /// let device = Device::best()?;
        /// let clusters = KMeans::new(Metric::L2, 2).train(&device, MatrixView::new(&[0.0f32, 1.0, 10.0, 11.0], 1)?)?;
        /// let others = clusters.predict(&device, MatrixView::new(&[12.0f32, 9.0], 1)?)?;
        /// assert_eq!(others, [clusters.assignments[3]; 2]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn predict<'r>(&self, device: &Device, rows: impl Into<Vectors<'r>>) -> Result<Vec<u32>> {
            self.predict_on(device, rows.into())
        }
        async predict_async;
    }

    fn predict_on<'s>(&'s self, device: &'s Device, rows: Vectors<'s>) -> Boxed<'s, Vec<u32>> {
        Box::pin(async move {
            let (centroids, metric) = ((&self.centroids[..], self.dim), (self.metric, Quantization::Auto));
            Ok(nearest(device, centroids, metric, (&rows).into()).await?.0)
        })
    }
}

/// The nearest of the centroids `[clusters, dim]` of each row of a sample, and the sum of the distances.
pub(super) async fn nearest(
    device: &Device,
    (centroids, dim): (&[f32], usize),
    (metric, quantization): (Metric, Quantization),
    sample: Sample<'_>,
) -> Result<(Vec<u32>, f64)> {
    let given = GivenCentroids { values: MatrixView::new(centroids, dim)?, metric, quantization };
    let centroids = DeviceCentroids::of(&given, device).await?;
    let pieces: Vec<Vectors<'_>> = match sample {
        Sample::Host(rows) => {
            let starts = (0..rows.rows()).step_by(ROWS);
            starts.map(|start| rows.slice(start..rows.rows().min(start + ROWS)).into()).collect()
        }
        Sample::Device(pieces) => pieces.iter().map(|&piece| Vectors::from(piece)).collect(),
    };
    let mut numbers = memory::with_room(sample.rows())?;
    let (mut inertia, mut first) = (0.0, 0u64);
    for piece in pieces {
        let rows = piece.rows();
        if piece.dim() != dim {
            return Err(Error::argument("rows", format!("dim {dim}, as the centroids have"), piece.dim()));
        }
        piece.kind().check_numbers("rows")?;
        piece.check_device("rows", &device.engine)?;
        piece.check_values("rows").map_err(|error| error.with_rows(|row| first + row))?;
        let assigned = centroids.assign(piece).await.map_err(|error| error.with_rows(|row| first + row))?;
        inertia += assigned.iter().map(|row| f64::from(row.distance)).sum::<f64>();
        numbers.extend(assigned.iter().map(|row| row.list));
        first += rows as u64;
    }
    Ok((numbers, inertia))
}
