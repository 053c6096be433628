//! Options of the distances of all pairs: the metric, what is written, and how exactly it is computed.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::options::setters;

/// The values that a distance kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Output {
    /// Smaller is nearer.
    #[default]
    Distance,
    /// The cosine similarity or the inner product: larger is nearer. L2 has none.
    Similarity,
}

/// How exactly the distances of all pairs are computed.
///
/// L2 is computed from the differences of elements, so that near vectors lose nothing to cancellation. (The host engine computes
/// pairs that are far apart from products, within the same bounds.) With `u = 2^-23`, distances of vectors of `dim` elements are
/// off by at most:
///
/// | metric | `Fast` | `Compensated` | `Half` |
/// |---|---|---|---|
/// | `L2Squared`, relative | `(dim + 4) u` | `4 u + (dim u)^2` | |
/// | `L2` | half of that, plus one rounding | half of that, plus one rounding | |
/// | `Cosine` | `(dim + 16) u` | `20 u + 2 (dim u)^2` | `2^-9 + (2 dim + 32) u` |
/// | `InnerProduct` | `(dim + 4) u \|q\| \|x\|` | `4 u \|q.x\| + 2 (dim u)^2 \|q\| \|x\|` | `(2^-9 + (2 dim + 16) u) \|q\| \|x\|` |
///
/// Products below `2^-126` may count as 0: that adds `8 dim * 2^-126` to compensated sums, and `dim * 2^-126` to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Sums in f32, within [`Metric::error_bound`]: as fast as the device multiplies. The order of a sum, and with it the last
    /// bits of a distance, depends on how many queries and rows there are.
    #[default]
    Fast,
    /// Sums with the rounding errors of additions and products kept beside them, as if computed in twice the precision and
    /// rounded once. A distance depends on its two vectors alone. Many times slower on a GPU.
    Compensated,
    /// Elements may be rounded to f16, and products are summed in f32: for many queries on adapters with cooperative matrices,
    /// several times as fast as f32. Elsewhere this computes what [`Precision::Fast`] does. A power of two for each vector brings
    /// its elements into the range of f16. Vectors that are of f16 already lose nothing, except for elements below 2^-28 of the
    /// norm. Cosine and inner product only: L2 from such products would lose near vectors to cancellation.
    ///
    /// The first call makes an f16 copy of each matrix, which the matrix keeps: half of its bytes on top of them.
    Half,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Compensated, Self::Half];

    /// The name that `FromStr` reads and `Display` writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Compensated => "compensated",
            Self::Half => "half",
        }
    }

    /// The largest difference between a computed distance and [`Metric::exact`].
    ///
    /// # Panics
    /// If the vectors differ in length.
    pub fn error_bound(self, metric: Metric, query: &[f32], row: &[f32]) -> f64 {
        if self == Self::Fast {
            return metric.error_bound(query, row);
        }
        let (dim, unit) = (query.len() as f64, 2f64.powi(-23));
        let norm = |vector: &[f32]| vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        if self == Self::Half {
            // Each operand is off by 2^-10 at most, and its smallest elements by less than u of the norm.
            let rounded = 2f64.powi(-9) + (2.0 * dim + 16.0) * unit;
            return match metric {
                Metric::Cosine => rounded + 16.0 * unit,
                Metric::InnerProduct => rounded * norm(query) * norm(row) + dim * 2f64.powi(-126),
                Metric::L2 | Metric::L2Squared => metric.error_bound(query, row),
            };
        }
        let (tail, lost) = ((dim * unit).powi(2), 8.0 * dim * 2f64.powi(-126));
        let exact = metric.exact(query, row);
        match metric {
            Metric::L2Squared => (4.0 * unit + tail) * exact + lost,
            Metric::L2 => {
                // As in `Metric::error_bound`: roots are monotone.
                let squared = exact * exact;
                let bound = (4.0 * unit + tail) * squared + lost;
                (squared + bound).sqrt() - (squared - bound).max(0.0).sqrt() + unit * exact
            }
            Metric::InnerProduct => 4.0 * unit * exact.abs() + 2.0 * tail * norm(query) * norm(row) + lost,
            Metric::Cosine => 20.0 * unit + 2.0 * tail,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|precision| precision.name() == text);
        named.ok_or_else(|| Error::argument("precision", "fast, compensated or half", text))
    }
}

/// How the distances of all pairs are computed: see [`Device::distances_with`](crate::Device::distances_with).
///
/// ```
/// use nearfield::{DistanceOptions, Metric, Output, Precision};
/// let options = DistanceOptions::new(Metric::Cosine).output(Output::Similarity).precision(Precision::Compensated);
/// assert_eq!((options.metric, options.precision), (Metric::Cosine, Precision::Compensated));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DistanceOptions {
    /// The metric.
    pub metric: Metric,
    /// Distances or similarities. Default: distances.
    pub output: Output,
    /// How exactly they are computed. Default: [`Precision::Fast`].
    pub precision: Precision,
}

impl DistanceOptions {
    /// Distances by this metric, fast.
    pub fn new(metric: Metric) -> Self {
        Self { metric, output: Output::default(), precision: Precision::default() }
    }

    setters! { options => options;
        /// Sets [`DistanceOptions::output`].
        output: Output;
        /// Sets [`DistanceOptions::precision`].
        precision: Precision;
    }

    /// Checks that the metric has such an output, and such a precision.
    pub(crate) fn check(&self) -> Result<()> {
        let similar = matches!(self.metric, Metric::Cosine | Metric::InnerProduct);
        if self.precision == Precision::Half && !similar {
            let needed = "fast or compensated, because products of f16 would lose near vectors by L2";
            return Err(Error::argument("precision", needed, self.precision));
        }
        if self.output == Output::Similarity && !similar {
            return Err(Error::argument("output", "distances, because L2 has no similarity", "similarities"));
        }
        Ok(())
    }
}
