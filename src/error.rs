//! The error type of the crate.

use std::borrow::Cow;
use std::path::PathBuf;

/// The result of all fallible calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call failed. Messages name the argument, what was needed and what was given.
///
/// After any error an index is unchanged and can still be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No suitable adapter: none is installed, or none has the requested name.
    #[error("device: needed {needed}, found {found}")]
    NoAdapter {
        /// The request that failed.
        needed: String,
        /// The available adapters.
        found: String,
    },
    /// The adapter lacks a limit or a feature that the call needs.
    #[error("{what}: needs {needed}, the adapter has {available}")]
    Unsupported {
        /// The kernel or operation.
        what: String,
        /// What it needs.
        needed: String,
        /// What the adapter has.
        available: String,
    },
    /// An argument is out of range, or does not match the others.
    #[error("{argument}: needed {needed}, given {given}")]
    Argument {
        /// The argument's name.
        argument: &'static str,
        /// What was needed.
        needed: String,
        /// What was given.
        given: String,
    },
    /// A row contains NaN or infinity.
    #[error("{argument}: needed finite values, row {row} holds a NaN or an infinity")]
    NotFinite {
        /// `rows` or `queries`.
        argument: &'static str,
        /// The first such row of the argument.
        row: u64,
    },
    /// A row's norm is too small or too large to compute distances with the promised precision.
    #[error("{argument}: needed norms that are 0 or within 2^-50 .. 2^50, row {row} has another")]
    NormOutOfRange {
        /// `rows` or `queries`.
        argument: &'static str,
        /// The first such row of the argument.
        row: u64,
    },
    /// An id is given twice, or is already in the index.
    #[error("ids: needed ids that are not in the index yet, each once, given {id} again")]
    DuplicateId {
        /// The repeated id.
        id: u64,
    },
    /// No row has this id.
    #[error("ids: needed ids of rows in the index, given {id}, which no row has")]
    UnknownId {
        /// The id.
        id: u64,
    },
    /// An id is 2^63 or above.
    #[error("ids: needed ids below 2^63, given {id}")]
    IdTooLarge {
        /// The id.
        id: u64,
    },
    /// The scratch budget is too small for the call.
    #[error("budget: {purpose} needs {needed} bytes of scratch memory, the budget is {budget} bytes")]
    Budget {
        /// What the memory is for.
        purpose: String,
        /// The fewest bytes that suffice.
        needed: u64,
        /// Bytes allowed.
        budget: u64,
    },
    /// The rows of indexes would hold more of the device's memory than [`DeviceOptions::memory_bytes`](crate::DeviceOptions::memory_bytes)
    /// lets them.
    #[error(
        "memory_bytes: {purpose} need {needed} bytes beside the {held} that indexes hold on the device, the limit is {limit}"
    )]
    MemoryLimit {
        /// What the memory is for.
        purpose: String,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that the rows of all indexes on the device hold.
        held: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The device or the host is out of memory.
    #[error("memory: {purpose} needs {}, more than is left", needed_bytes(*bytes))]
    OutOfMemory {
        /// What the memory is for.
        purpose: Cow<'static, str>,
        /// Bytes requested, if known.
        bytes: Option<u64>,
    },
    /// The device was lost: the driver was reset, or the device was unplugged or destroyed by its owner.
    #[error("device: lost ({reason})")]
    DeviceLost {
        /// The driver's reason.
        reason: String,
    },
    /// The device refused a command. This is a bug of this crate: please report it.
    #[error("device: refused a command ({message})")]
    Device {
        /// wgpu's message.
        message: String,
    },
    /// A bug of this library: please report it.
    #[error("internal fault, please report it: {message}")]
    Internal {
        /// The violated assumption.
        message: String,
    },
    /// The content of a file is not what the call expects.
    #[error("{}: needed {needed}, found {found}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The expected content.
        needed: String,
        /// The actual content.
        found: String,
    },
    /// The caller asked the call to end, by [`interruptible`](crate::interruptible).
    #[error("interrupted: the caller asked the call to end")]
    Interrupted,
    /// A file could not be opened, read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error. The message contains it, so it is not the `source`.
        cause: std::io::Error,
    },
}

/// The kind of an [`Error`], returned by [`Error::kind`]. Programs choose by it what to do, and bindings choose exceptions and codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller gave something wrong: an argument, a value of a row, an id.
    Argument,
    /// No adapter fits the request.
    NoAdapter,
    /// The adapter cannot do it.
    Unsupported,
    /// There is too little memory, by the device's or the host's word, a budget or a limit.
    Memory,
    /// The device is gone. Another can be opened, and the index loaded there.
    DeviceLost,
    /// The caller asked the call to end.
    Interrupted,
    /// A file has other content than expected.
    File,
    /// The system refused to open, read or write a file.
    Io,
    /// A bug of this library.
    Internal,
}

/// Bytes as text, if their number is known.
fn needed_bytes(bytes: Option<u64>) -> String {
    bytes.map_or("memory".to_owned(), |bytes| format!("{bytes} bytes"))
}

impl Error {
    /// The same error with another number of its row, if it names one: where rows were given in pieces, or as a selection.
    ///
    /// ```
    /// let error = nearfield::Error::NotFinite { argument: "rows", row: 3 };
    /// assert!(error.with_rows(|row| 100 + row).to_string().contains("103"));
    /// ```
    #[must_use]
    pub fn with_rows(self, number: impl FnOnce(u64) -> u64) -> Self {
        match self {
            Self::NotFinite { argument, row } => Self::NotFinite { argument, row: number(row) },
            Self::NormOutOfRange { argument, row } => Self::NormOutOfRange { argument, row: number(row) },
            other => other,
        }
    }

    /// The kind of this error.
    ///
    /// ```
    /// use nearfield::{Device, ErrorKind, Flat, Metric};
    ///
    /// let error = Flat::builder(&Device::host(), Metric::L2, 0).build().expect_err("no dim");
    /// assert_eq!(error.kind(), ErrorKind::Argument);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Argument { .. }
            | Self::NotFinite { .. }
            | Self::NormOutOfRange { .. }
            | Self::DuplicateId { .. }
            | Self::UnknownId { .. }
            | Self::IdTooLarge { .. } => ErrorKind::Argument,
            Self::NoAdapter { .. } => ErrorKind::NoAdapter,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Budget { .. } | Self::MemoryLimit { .. } | Self::OutOfMemory { .. } => ErrorKind::Memory,
            Self::Io { cause, .. } if cause.kind() == std::io::ErrorKind::OutOfMemory => ErrorKind::Memory,
            Self::DeviceLost { .. } => ErrorKind::DeviceLost,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::File { .. } => ErrorKind::File,
            Self::Io { .. } => ErrorKind::Io,
            Self::Device { .. } | Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// The same error in the words of a caller who has another name for `rows`, of which row `first_row` was the first given. Errors
    /// about another argument stay as they are.
    ///
    /// ```
    /// let error = nearfield::Error::NotFinite { argument: "rows", row: 3 };
    /// let text = error.for_argument("queries", 100).to_string();
    /// assert_eq!(text, "queries: needed finite values, row 103 holds a NaN or an infinity");
    /// ```
    #[must_use]
    pub fn for_argument(self, name: &'static str, first_row: u64) -> Self {
        // Some calls name it as their callers do.
        let is_of_rows = |argument| argument == "rows" || argument == name;
        match self {
            Self::Argument { argument, needed, given } if is_of_rows(argument) => {
                Self::Argument { argument: name, needed, given }
            }
            Self::NotFinite { argument, row } if is_of_rows(argument) => {
                Self::NotFinite { argument: name, row: first_row + row }
            }
            Self::NormOutOfRange { argument, row } if is_of_rows(argument) => {
                Self::NormOutOfRange { argument: name, row: first_row + row }
            }
            other => other,
        }
    }

    /// Whether there is too little memory for rows, by the device's or the host's word or by a limit.
    pub(crate) fn lacks_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. } | Self::MemoryLimit { .. })
    }

    /// Whether another device may do what this one failed to do.
    pub(crate) fn is_of_device(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::OutOfMemory { .. } | Self::Device { .. })
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into() }
    }

    pub(crate) fn argument(argument: &'static str, needed: impl Into<String>, given: impl ToString) -> Self {
        Self::Argument { argument, needed: needed.into(), given: given.to_string() }
    }

    pub(crate) fn unsupported(
        what: impl Into<String>,
        needed: impl Into<String>,
        available: impl ToString,
    ) -> Self {
        Self::Unsupported { what: what.into(), needed: needed.into(), available: available.to_string() }
    }

    /// Checks that kernels can number all slots of an index, including tombstones.
    pub(crate) fn check_slots(end: u64) -> Result<()> {
        if end < u64::from(u32::MAX) {
            return Ok(());
        }
        Err(Self::unsupported("rows", format!("{end} slots"), u32::MAX - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_of_memory_are_of_one_kind_and_values_and_ids_are_the_callers() {
        let purpose = || "rows".to_owned();
        let shortages = [
            Error::Budget { purpose: purpose(), needed: 2, budget: 1 },
            Error::MemoryLimit { purpose: purpose(), needed: 2, held: 1, limit: 2 },
            Error::OutOfMemory { purpose: purpose().into(), bytes: None },
        ];
        assert!(shortages.iter().all(|error| error.kind() == ErrorKind::Memory), "{shortages:?}");
        let faults = [
            Error::argument("k", "at least 1", 0),
            Error::NotFinite { argument: "rows", row: 1 },
            Error::NormOutOfRange { argument: "queries", row: 1 },
            Error::DuplicateId { id: 1 },
            Error::UnknownId { id: 1 },
            Error::IdTooLarge { id: 1 << 63 },
        ];
        assert!(faults.iter().all(|error| error.kind() == ErrorKind::Argument), "{faults:?}");
        assert_eq!(Error::internal("").kind(), ErrorKind::Internal);
    }

    #[test]
    fn rows_get_the_callers_name_and_numbers_and_nothing_else_does() {
        let text = |error: Error| error.for_argument("vectors", 10).to_string();
        assert!(text(Error::NormOutOfRange { argument: "rows", row: 2 }).ends_with("row 12 has another"));
        assert_eq!(text(Error::argument("rows", "some", 0)), "vectors: needed some, given 0");
        assert!(text(Error::NotFinite { argument: "vectors", row: 2 }).contains("row 12 "));
        let other = Error::NotFinite { argument: "queries", row: 2 };
        assert!(text(other).starts_with("queries: needed finite values, row 2 "));
    }
}
