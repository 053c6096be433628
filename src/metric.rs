//! Distance metrics and their error bounds.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The distance between two vectors `q` and `x`. Smaller is always nearer.
///
/// Reported distances are `f32`. Their error is bounded, for vectors of `dim` elements:
///
/// | metric | distance | largest error |
/// |---|---|---|
/// | `L2Squared` | `sum (q - x)^2` | relative `(dim + 4) * 2^-23`, plus `dim * 2^-126` |
/// | `L2` | its square root | half the relative error above, plus one rounding |
/// | `Cosine` | `1 - q.x / (\|q\| \|x\|)` | `(dim + 16) * 2^-23` |
/// | `InnerProduct` | `-(q.x)` | `(dim + 4) * 2^-23 * \|q\| \|x\|` |
///
/// Cosine similarities are clamped to `[-1, 1]`. A zero vector has similarity 0 to every vector, so distance 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Metric {
    /// Squared Euclidean distance.
    L2Squared,
    /// Euclidean distance. Searches order by its square, and take the root of results only.
    L2,
    /// One minus the cosine similarity.
    Cosine,
    /// The inner product, negated.
    InnerProduct,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 4] = [Self::L2Squared, Self::L2, Self::Cosine, Self::InnerProduct];

    pub(crate) fn is_l2(self) -> bool {
        matches!(self, Self::L2Squared | Self::L2)
    }

    /// The metric whose distances searches order by and merge: squares in place of roots, which may be equal where their squares differ.
    pub(crate) fn ordering(self) -> Self {
        if self == Self::L2 { Self::L2Squared } else { self }
    }

    /// The factor of a vector with this squared norm before it is quantised. Cosine compares directions, so it is the inverse norm there, and 1
    /// for other metrics.
    #[inline]
    pub(crate) fn scale(self, squared: f64) -> f64 {
        if self == Self::Cosine && squared > 0.0 { 1.0 / squared.sqrt() } else { 1.0 }
    }

    /// The name that [`FromStr`] reads and `Display` writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2Squared => "l2sq",
            Self::L2 => "l2",
            Self::Cosine => "cosine",
            Self::InnerProduct => "ip",
        }
    }

    /// The metric that assigns rows to centroids. Inner product uses cosine, because its lists are cones as well.
    pub(crate) fn of_centroids(self) -> Self {
        match self {
            Self::L2 | Self::L2Squared => Self::L2Squared,
            Self::Cosine | Self::InnerProduct => Self::Cosine,
        }
    }

    /// The distance of two vectors in f64, by its definition. Tests and benchmarks compare with it.
    ///
    /// # Panics
    /// If the vectors differ in length.
    pub fn exact(self, query: &[f32], row: &[f32]) -> f64 {
        assert_eq!(query.len(), row.len(), "vectors of different lengths have no distance");
        let pairs = || query.iter().zip(row).map(|(&q, &x)| (f64::from(q), f64::from(x)));
        let dot: f64 = pairs().map(|(q, x)| q * x).sum();
        match self {
            Self::L2Squared => pairs().map(|(q, x)| (q - x) * (q - x)).sum(),
            Self::L2 => pairs().map(|(q, x)| (q - x) * (q - x)).sum::<f64>().sqrt(),
            Self::InnerProduct => -dot,
            Self::Cosine => {
                let norms: f64 = pairs().map(|(q, _)| q * q).sum::<f64>().sqrt()
                    * pairs().map(|(_, x)| x * x).sum::<f64>().sqrt();
                if norms == 0.0 { 1.0 } else { 1.0 - (dot / norms).clamp(-1.0, 1.0) }
            }
        }
    }

    /// The largest difference between a reported distance and [`Metric::exact`].
    ///
    /// # Panics
    /// If the vectors differ in length.
    pub fn error_bound(self, query: &[f32], row: &[f32]) -> f64 {
        let dim = query.len() as f64;
        let unit = 2f64.powi(-23);
        let norm = |v: &[f32]| v.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        match self {
            Self::L2Squared => (dim + 4.0) * unit * self.exact(query, row) + dim * 2f64.powi(-126),
            Self::L2 => {
                // A root halves the relative error. Near zero the absolute error dominates; roots are monotone.
                let squared = Self::L2Squared.exact(query, row);
                let bound = Self::L2Squared.error_bound(query, row);
                (squared + bound).sqrt() - (squared - bound).max(0.0).sqrt() + unit * squared.sqrt()
            }
            Self::InnerProduct => (dim + 4.0) * unit * norm(query) * norm(row) + dim * 2f64.powi(-126),
            Self::Cosine => (dim + 16.0) * unit,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "l2sq" => Ok(Self::L2Squared),
            "l2" => Ok(Self::L2),
            "cosine" | "cos" => Ok(Self::Cosine),
            "ip" | "dot" => Ok(Self::InnerProduct),
            other => Err(Error::argument("metric", "l2sq, l2, cosine or ip", other)),
        }
    }
}
