//! The values of the override constant `METRIC`.

use crate::metric::Metric;

/// Squared L2.
pub(crate) const METRIC_L2: u32 = 0;
/// Cosine.
pub(crate) const METRIC_COSINE: u32 = 1;
/// Inner product.
pub(crate) const METRIC_INNER_PRODUCT: u32 = 2;

/// All of them.
pub(crate) const METRICS: &[u32] = &[METRIC_L2, METRIC_COSINE, METRIC_INNER_PRODUCT];

/// The value that stands for a metric. `L2` is computed as its square.
pub fn metric_constant(metric: Metric) -> u32 {
    match metric {
        Metric::L2Squared | Metric::L2 => METRIC_L2,
        Metric::Cosine => METRIC_COSINE,
        Metric::InnerProduct => METRIC_INNER_PRODUCT,
    }
}
