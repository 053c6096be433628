//! The reported distance of one pair of vectors: computed in f64, rounded to f32 once.

use crate::host::arithmetic::sums::{dot, squared_differences};
use crate::metric::Metric;

/// A vector and its squared norm.
#[derive(Clone, Copy)]
pub(crate) struct NormedVector<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) squared: f64,
}

/// The reported distance; for L2 its square.
pub(crate) fn distance(metric: Metric, query: NormedVector<'_>, row: NormedVector<'_>) -> f32 {
    let exact = match metric {
        Metric::L2Squared | Metric::L2 => squared_differences(query.values, row.values),
        Metric::InnerProduct => -dot(query.values, row.values),
        Metric::Cosine => {
            let norms = query.squared.sqrt() * row.squared.sqrt();
            let cosine =
                if norms == 0.0 { 0.0 } else { (dot(query.values, row.values) / norms).clamp(-1.0, 1.0) };
            1.0 - cosine
        }
    };
    // Turns -0 into 0: no key stands for -0.
    exact as f32 + 0.0
}
