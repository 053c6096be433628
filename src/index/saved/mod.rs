//! Saving and loading, for every index: rows with their ids, piece by piece. [`index::file`](crate::index::file) knows the
//! files.

mod loading;
mod saving;
#[cfg(test)]
mod tests;

pub(crate) use loading::Loading;
pub(crate) use saving::Saving;

use std::path::Path;

use crate::engine::Screen;
use crate::error::Result;
use crate::matrix::ElementKind;
use crate::metric::Metric;

/// Bytes of rows on the host at a time: enough that the device and the disk are busy.
const PIECE_BYTES: usize = 16 << 20;
/// Ids that are written at a time.
const PIECE_IDS: usize = 1 << 16;

/// What an index file says of itself: see [`Flat::save`](crate::Flat::save).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedIndex {
    /// The lists of an [`Ivf`](crate::Ivf); none for a [`Flat`](crate::Flat).
    pub lists: Option<usize>,
    /// The metric.
    pub metric: Metric,
    /// Elements per row.
    pub dim: usize,
    /// How rows are stored.
    pub elements: ElementKind,
    /// How many rows there are.
    pub rows: usize,
    /// The screen that was asked for.
    pub screen: Screen,
}

impl SavedIndex {
    /// Reads what a file says of itself. It needs no device; the rows are checked when the index is loaded.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) when the file is no index of nearfield, or one of another version, or damaged;
    /// [`Error::Io`](crate::Error::Io) when it cannot be read.
    ///
    /// ```no_run
    /// let saved = nearfield::SavedIndex::read("index.nf")?;
    /// println!("{} rows of {} elements", saved.rows, saved.dim);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Loading::open(path.as_ref(), None)?.about)
    }
}

/// The word for an index with or without lists in its file.
fn kind_word(has_lists: bool) -> &'static str {
    if has_lists { "ivf" } else { "flat" }
}

/// The lists of an index.
pub(crate) struct Lists {
    /// Where each list starts among the rows of the file, and the end of the last: `[lists + 1]`.
    pub(crate) offsets: Vec<u64>,
    /// `[lists, dim]`.
    pub(crate) centroids: Vec<f32>,
}
