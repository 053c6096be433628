//! Errors of the library in those of DataFusion.

use datafusion::common::DataFusionError;

/// Wraps an error of the library. A shortage of memory stays one.
pub(crate) fn external(error: nearfield::Error) -> DataFusionError {
    match error {
        nearfield::Error::Interrupted => DataFusionError::Execution("the search was cancelled".into()),
        nearfield::Error::OutOfMemory { .. } | nearfield::Error::Budget { .. } => {
            DataFusionError::ResourcesExhausted(error.to_string())
        }
        other => DataFusionError::External(Box::new(other)),
    }
}
