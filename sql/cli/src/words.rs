//! Errors of DataFusion in the words of the command line.

use anyhow::anyhow;
use datafusion::common::DataFusionError;

/// An error of a session, as the user should read it. Those of nearfield keep their type.
pub(crate) fn in_words(error: DataFusionError) -> anyhow::Error {
    match error {
        DataFusionError::SQL(error, _) => anyhow!("{error}"),
        DataFusionError::External(error) => match error.downcast::<nearfield::Error>() {
            Ok(error) => (*error).into(),
            Err(error) => anyhow!(error),
        },
        DataFusionError::Context(about, error) => in_words(*error).context(about),
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => anyhow!(text),
        error => anyhow!("{}", error.strip_backtrace()),
    }
}
