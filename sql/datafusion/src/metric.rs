//! The distances of SQL: those of [`Metric`], defined in f64, with NULL where one is not defined. What a search orders rows by.

use std::fmt;

use datafusion::arrow::datatypes::DataType;
use nearfield::Metric;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::vectors::Number;

/// Partial sums that add up independently, so that processors add several at once. Their number does not depend on the processor, and so
/// neither do the bits of a distance.
const LANES: usize = 16;

/// Metrics in messages.
pub(crate) mod by_name {
    use nearfield::Metric;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(metric: &Metric, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(metric)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Metric, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The name and the type of a column of distances.
pub(crate) const DISTANCE: (&str, DataType) = ("_distance", DataType::Float64);
/// Those of a column of scores, of which larger ones are nearer.
const SCORE: (&str, DataType) = ("_score", DataType::Float32);

/// What a search orders rows by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Measure {
    /// The distance of two vectors.
    Distance(#[serde(with = "by_name")] Metric),
    /// The score of two documents, of several token vectors each.
    MaxSim,
}

impl Measure {
    /// The name and the type of its column in an answer.
    pub(crate) fn column(self) -> (&'static str, DataType) {
        match self {
            Self::Distance(_) => DISTANCE,
            Self::MaxSim => SCORE,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distance(metric) => metric.fmt(f),
            Self::MaxSim => f.write_str("maxsim"),
        }
    }
}

/// What orders rows by a score as others are ordered by a distance.
pub(crate) fn of_score(score: f32) -> f64 {
    // Not -0.0, which would come before 0.0.
    0.0 - f64::from(score)
}

/// The score that [`of_score`] was made of.
pub(crate) fn to_score(distance: f64) -> f32 {
    (0.0 - distance) as f32
}

/// The metric by which the library orders rows in the same order.
pub(crate) fn ordering(metric: Metric) -> Metric {
    if metric == Metric::L2 { Metric::L2Squared } else { metric }
}

/// The distance of two vectors of the same length, or none where it is not defined, as the cosine of a zero vector.
///
/// Not [`Metric::exact`]: SQL has vectors of f64, adds up millions of rows, and has a NULL.
pub(crate) fn distance<A: Number, B: Number>(metric: Metric, a: &[A], b: &[B]) -> Option<f64> {
    let squared = || sum(a, b, |a, b| (a - b) * (a - b));
    match metric {
        Metric::L2 => Some(squared().sqrt()),
        Metric::L2Squared => Some(squared()),
        // Not -0.0, which would come before 0.0.
        Metric::InnerProduct => Some(0.0 - dot(a, b)),
        Metric::Cosine => {
            let (a_squared, b_squared) = (dot(a, a), dot(b, b));
            let is_defined = a_squared != 0.0 && b_squared != 0.0;
            is_defined.then(|| 1.0 - dot(a, b) / (a_squared.sqrt() * b_squared.sqrt()))
        }
        Metric::Hamming | Metric::Jaccard => {
            let [different, either] = bits(a, b)?;
            match metric {
                Metric::Hamming => Some(different),
                // As in pgvector.
                _ if either == 0.0 => Some(1.0),
                _ => Some(different / either),
            }
        }
        _ => None,
    }
}

/// A number that is a byte. Others have no bits.
pub(crate) fn byte(number: f64) -> Option<u8> {
    (number == f64::from(number as u8)).then_some(number as u8)
}

/// The bits that differ and those that either vector has, of bytes; none for other numbers.
fn bits<A: Number, B: Number>(a: &[A], b: &[B]) -> Option<[f64; 2]> {
    let mut counts = [0u64; 2];
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (byte(a.to_f64())?, byte(b.to_f64())?);
        counts[0] += u64::from((a ^ b).count_ones());
        counts[1] += u64::from((a | b).count_ones());
    }
    Some(counts.map(|count| count as f64))
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
