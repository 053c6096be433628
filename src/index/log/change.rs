//! A change of an index, as a log has it.

use std::fmt;

use crate::engine::Vectors;
use crate::index::log::record::ChangeKind;
use crate::options::Progress;

/// A change of an index.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    pub(crate) kind: ChangeKind,
    pub(crate) ids: &'a [u64],
    /// The rows of an add or update, of the type that the index stores.
    pub(crate) rows: Option<Vectors<'a>>,
    /// The insertion number of the next row after the change.
    pub(crate) next: u64,
    /// Called with the number of rows added so far.
    pub(crate) progress: Option<Progress<'a>>,
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("kind", &self.kind).field("ids", &self.ids).finish_non_exhaustive()
    }
}
