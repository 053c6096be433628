//! The pairs whose distances a call computes, and what their kernels share.

use crate::elements::MatrixView;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Snippet, wgsl};
use crate::kernels::distance::halve;
use crate::metric::{Metric, Output, PAIRS_NAMES};
use crate::options::distance::DistanceOptions;

/// The value of a pair, from its sum.
pub(super) const PAIRS: Snippet = Snippet { constants: PAIRS_NAMES, ..wgsl!("lib/pairs") };

/// A copy of vectors in f16, each multiplied by a power of two.
#[derive(Debug, Clone, Copy)]
pub struct HalfVectors<'a> {
    /// `[vectors, 4 * pitch]`, f16, padded with zeros.
    pub(crate) values: BufferSlice<'a>,
    /// `[vectors, 2]`, f32: what turns a sum of products into the inner product, and into the cosine, with the other vector's.
    pub(crate) factors: BufferSlice<'a>,
    /// Vectors of four elements from one vector to the next.
    pub(crate) pitch: u32,
}

/// The pairs to compute: f32 vectors, each at its stride.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// Metric, output and precision. Fast sums need strides and a dim that are multiples of four, and for cosine `norms` or
    /// `unit_vectors`; without them the kernel of the compensated sums computes plain ones, more slowly.
    pub options: DistanceOptions,
    /// For cosine: all vectors have norm 1, so norms are not computed.
    pub unit_vectors: bool,
    /// For cosine: the norms of queries and of rows, as [`Recorder::norms`](crate::Recorder::norms) writes them.
    pub norms: Option<[BufferSlice<'a>; 2]>,
    /// For [`Precision::Half`](crate::Precision::Half): the copies of queries and rows in f16, as
    /// [`DeviceMatrix::halves`](crate::DeviceMatrix::halves) returns them. Without them sums are fast ones.
    pub halves: Option<[HalfVectors<'a>; 2]>,
    /// `[queries, query_stride]`.
    pub queries: BufferSlice<'a>,
    /// Number of queries.
    pub query_count: u32,
    /// Elements between two queries.
    pub query_stride: u32,
    /// `[rows, row_stride]`.
    pub rows: BufferSlice<'a>,
    /// Number of rows.
    pub row_count: u32,
    /// Elements between two rows.
    pub row_stride: u32,
    /// Elements per vector.
    pub dim: u32,
    /// `[queries, distance_stride]`.
    pub distances: BufferSlice<'a>,
    /// Elements between the distances of two queries.
    pub distance_stride: u32,
}

impl<'a> Pairs<'a> {
    /// The pairs of `count` queries from query `first` on, a multiple of [`Pairs::UNIT`].
    pub(crate) fn of_queries(&self, first: u32, count: u32) -> Self {
        let from = |slice: BufferSlice<'a>, row_bytes: u64| {
            let skipped = u64::from(first) * row_bytes;
            BufferSlice { offset: slice.offset + skipped, bytes: slice.bytes - skipped, ..slice }
        };
        Self {
            queries: from(self.queries, u64::from(self.query_stride) * 4),
            distances: from(self.distances, u64::from(self.distance_stride) * 4),
            norms: self.norms.map(|[queries, rows]| [from(queries, 8), rows]),
            halves: self.halves.map(|[queries, rows]| {
                let values = from(queries.values, u64::from(queries.pitch) * 8);
                [HalfVectors { values, factors: from(queries.factors, 8), ..queries }, rows]
            }),
            query_count: count,
            ..*self
        }
    }

    /// Any row of a buffer begins where a binding may, 256 bytes on, if its number is a multiple of this.
    pub(crate) const UNIT: u32 = 128;

    /// Checks that vectors, norms and results lie within their buffers, and that the metric has such an output.
    pub(super) fn check(&self) -> Result<()> {
        self.options.check()?;
        check_extent("queries", self.queries, self.query_count, self.query_stride, self.dim)?;
        check_extent("rows", self.rows, self.row_count, self.row_stride, self.dim)?;
        check_extent("distances", self.distances, self.query_count, self.distance_stride, self.row_count)?;
        if let Some([queries, rows]) = self.norms {
            queries.check_rows("norms", self.query_count, [1; 2], 8)?;
            rows.check_rows("norms", self.row_count, [1; 2], 8)?;
        }
        if let Some(halves) = self.halves {
            for (halves, count) in halves.into_iter().zip([self.query_count, self.row_count]) {
                halves.values.check_rows("halves", count, [halves.pitch; 2], 8)?;
                halves.factors.check_rows("halves", count, [1; 2], 8)?;
            }
            if halves.iter().any(|halves| halves.pitch != halve::pitch_of(self.dim.div_ceil(4))) {
                let given = format!("{} and {} vectors of four", halves[0].pitch, halves[1].pitch);
                return Err(Error::argument("halves", format!("copies of dim {}", self.dim), given));
            }
        }
        Ok(())
    }

    /// The value of `METRIC`.
    pub(super) fn metric_constant(&self) -> u32 {
        self.options.metric.pairs_constant(self.unit_vectors)
    }

    /// 1 if similarities are written.
    pub(super) fn as_similarity(&self) -> u32 {
        (self.options.output == Output::Similarity).into()
    }

    /// The buffers of a kernel that reads whole vectors of four. Metrics without norms bind the vectors in their places.
    pub(super) fn buffers(&self) -> [BufferSlice<'a>; 5] {
        let [query_norms, row_norms] = self.norms.unwrap_or([self.queries, self.rows]);
        [self.queries, self.rows, query_norms, row_norms, self.distances]
    }
}

/// Checks that `count` vectors of `dim` elements, `stride` apart, lie within a buffer.
fn check_extent(
    argument: &'static str,
    slice: BufferSlice<'_>,
    count: u32,
    stride: u32,
    dim: u32,
) -> Result<()> {
    if stride < dim {
        return Err(Error::argument(argument, format!("a stride of at least {dim}"), stride));
    }
    slice.check_rows(argument, count, [stride, dim], 4)
}

/// The distances in f64, `[queries, rows]`.
pub fn reference(metric: Metric, queries: MatrixView<'_, f32>, rows: MatrixView<'_, f32>) -> Vec<f64> {
    (0..queries.rows())
        .flat_map(|query| (0..rows.rows()).map(move |row| metric.exact(queries.row(query), rows.row(row))))
        .collect()
}
