//! Saving and loading, for every index: rows with their ids, piece by piece. [`index::file`](crate::index::file) knows the
//! files.

mod contents;
pub(crate) mod kept;
mod loading;
mod saving;

pub use contents::SavedIndex;
pub(crate) use contents::{SavedDocuments, SavedKind, SavedLists};
pub(super) use loading::of_metric;
pub(crate) use loading::{Loading, blame};
pub(crate) use saving::{CHANGES_OF, Checkpoint, Saving};
