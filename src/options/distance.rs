//! Options of the distances of all pairs: the metric, what is written, and how exactly it is computed.

use crate::error::{Error, Result};
use crate::metric::{Metric, Output, Precision};
use crate::options::setters;

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
        self.metric.check_numbers()?;
        let similar = self.metric.has_similarity();
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
