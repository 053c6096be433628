//! The reported distance of one pair of vectors: computed in f64, rounded to f32 once.

use crate::host::arithmetic::sums::{dot, squared_differences};
use crate::metric::{Metric, Output};

/// A vector and its squared norm.
#[derive(Clone, Copy)]
pub(crate) struct NormedVector<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) squared: f64,
}

/// The reported distance; for L2 its square.
pub(crate) fn distance(metric: Metric, query: NormedVector<'_>, row: NormedVector<'_>) -> f32 {
    if metric.counts_bits() {
        return metric.of_bits(query.values, row.values) as f32;
    }
    let sum = match metric.adds_differences() {
        true => squared_differences(query.values, row.values),
        false => dot(query.values, row.values),
    };
    let sum = metric.divided(sum, || query.squared.sqrt() * row.squared.sqrt());
    let exact = metric.ordering().value(sum, Output::Distance);
    // Turns -0 into 0: no key stands for -0.
    exact as f32 + 0.0
}
