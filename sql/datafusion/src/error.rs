//! Errors of the library in those of DataFusion.

use datafusion::common::DataFusionError;
use nearfield::ErrorKind;

/// Wraps an error of the library about a file, which it names.
pub(crate) fn in_file(path: &str, error: nearfield::Error) -> DataFusionError {
    let names_it = error.to_string().contains(path);
    let error = external(error);
    if names_it { error } else { error.context(path.to_owned()) }
}

/// Wraps an error of the library. A shortage of memory stays one.
pub(crate) fn external(error: nearfield::Error) -> DataFusionError {
    match error.kind() {
        ErrorKind::Interrupted => DataFusionError::Execution("the search was cancelled".into()),
        ErrorKind::Memory => DataFusionError::ResourcesExhausted(error.to_string()),
        _ => DataFusionError::External(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use nearfield::Error;

    use super::*;

    #[test]
    fn every_shortage_of_memory_is_one_for_datafusion() {
        for error in [
            Error::MemoryLimit { purpose: "rows".into(), needed: 2, held: 1, limit: 2 },
            Error::Budget { purpose: "rows".into(), needed: 2, budget: 1 },
            Error::OutOfMemory { purpose: "rows".into(), bytes: None },
        ] {
            let text = error.to_string();
            let found = external(error);
            assert!(
                matches!(&found, DataFusionError::ResourcesExhausted(words) if *words == text),
                "{found}"
            );
        }
        assert!(matches!(external(Error::UnknownId { id: 1 }), DataFusionError::External(_)));
    }
}
