//! The values of the override constant `METRIC` in the kernels that compute what searches order by.

use crate::gpu::Snippet;
use crate::metric::{Metric, REFINED_NAMES};

/// Their names, and no text.
pub(crate) const METRIC: Snippet = Snippet { text: "", constants: REFINED_NAMES };

/// The value that stands for a metric.
pub fn metric_constant(metric: Metric) -> u32 {
    metric.refined_constant()
}
