//! Bounds of the errors of distances, by metric and precision.

use crate::metric::{Metric, Precision};

impl Metric {
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
            Self::Hamming => 0.0,
            Self::Jaccard => unit / 2.0,
        }
    }
}

impl Precision {
    /// The largest difference between a computed distance and [`Metric::exact`].
    ///
    /// # Panics
    /// If the vectors differ in length.
    pub fn error_bound(self, metric: Metric, query: &[f32], row: &[f32]) -> f64 {
        if self == Self::Fast || metric.counts_bits() {
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
                _ => metric.error_bound(query, row),
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
            _ => 20.0 * unit + 2.0 * tail,
        }
    }
}
