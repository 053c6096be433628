//! The log of changes beside the file of a saved index. `docs/files.md` describes its bytes.
//!
//! A change appends its records here before the index in memory takes it, so that the file of all rows need not be written again. Whoever
//! opens the index reads the file, then applies the changes of its log.

pub(crate) mod change;
pub(crate) mod opening;
pub(crate) mod place;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod writer;
