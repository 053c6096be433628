//! The distances of SQL: their names, and their definition in f64.

use std::fmt;

use datafusion::common::{Result, plan_err};
use pulp::Arch;

use crate::vectors::Number;

/// How near two vectors are. Smaller is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// The Euclidean distance: `l2_distance` and `array_distance`.
    L2,
    /// The square of it.
    L2Squared,
    /// One minus the cosine of the angle: `cosine_distance`. A zero vector has none.
    Cosine,
    /// The inner product, negated: the negative of `inner_product`.
    InnerProduct,
}

/// Partial sums that add up independently, so that processors add several at once. Their number does not depend on the processor, and so
/// neither do the bits of a distance.
const LANES: usize = 16;

impl Metric {
    /// The metric of a name of the library, the command line and Python.
    pub(crate) fn of_name(name: &str) -> Result<Self> {
        match name.parse().ok().and_then(Self::from_library) {
            Some(metric) => Ok(metric),
            None => plan_err!("metric: needed l2, l2sq, cosine or ip, given {name:?}"),
        }
    }

    /// The metric of an index, if SQL has it.
    pub(crate) fn from_library(metric: nearfield::Metric) -> Option<Self> {
        match metric {
            nearfield::Metric::L2 => Some(Self::L2),
            nearfield::Metric::L2Squared => Some(Self::L2Squared),
            nearfield::Metric::Cosine => Some(Self::Cosine),
            nearfield::Metric::InnerProduct => Some(Self::InnerProduct),
            _ => None,
        }
    }

    /// The metric by which the library orders rows in the same order.
    pub(crate) fn of_library(self) -> nearfield::Metric {
        match self {
            Self::L2 | Self::L2Squared => nearfield::Metric::L2Squared,
            Self::Cosine => nearfield::Metric::Cosine,
            Self::InnerProduct => nearfield::Metric::InnerProduct,
        }
    }

    /// The distance of two vectors of the same length, or none where it is not defined.
    pub(crate) fn distance<A: Number, B: Number>(self, a: &[A], b: &[B]) -> Option<f64> {
        match self {
            Self::L2 => Some(sum(a, b, |a, b| (a - b) * (a - b)).sqrt()),
            Self::L2Squared => Some(sum(a, b, |a, b| (a - b) * (a - b))),
            // Not -0.0, which would come before 0.0.
            Self::InnerProduct => Some(0.0 - dot(a, b)),
            Self::Cosine => {
                let (a_squared, b_squared) = (dot(a, a), dot(b, b));
                let is_defined = a_squared != 0.0 && b_squared != 0.0;
                is_defined.then(|| 1.0 - dot(a, b) / (a_squared.sqrt() * b_squared.sqrt()))
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L2 => "l2",
            Self::L2Squared => "l2sq",
            Self::Cosine => "cosine",
            Self::InnerProduct => "ip",
        })
    }
}

/// The length of a vector.
pub(crate) fn norm<A: Number>(a: &[A]) -> f64 {
    dot(a, a).sqrt()
}

/// The sum of products.
pub(crate) fn dot<A: Number, B: Number>(a: &[A], b: &[B]) -> f64 {
    sum(a, b, |a, b| a * b)
}

fn sum<A: Number, B: Number>(a: &[A], b: &[B], of: impl Fn(f64, f64) -> f64) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut lanes = [0.0; LANES];
            let (a_parts, b_parts) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
            let (a_rest, b_rest) = (a_parts.remainder(), b_parts.remainder());
            for (a, b) in a_parts.zip(b_parts) {
                for lane in 0..LANES {
                    lanes[lane] += of(a[lane].to_f64(), b[lane].to_f64());
                }
            }
            let mut total: f64 = lanes.iter().sum();
            for (a, b) in a_rest.iter().zip(b_rest) {
                total += of(a.to_f64(), b.to_f64());
            }
            total
        },
    )
}
