//! Where an index keeps its rows.

use std::path::PathBuf;

/// Where an index keeps its rows: see [`FlatBuilder::rows`](crate::FlatBuilder::rows).
///
/// Wherever they are, a search finds the same rows and orders them the same way. Distances of rows on the host are those of
/// [`Device::host`](crate::Device::host), bit for bit: computed in f64 and rounded once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RowPlace {
    /// On the device, beside their 8-bit copy.
    #[default]
    Device,
    /// In the host's memory. A GPU has the 8-bit copy alone, which takes about a quarter of the memory of f32 rows, and reads back which
    /// rows its screen cannot exclude; the host computes their distances.
    Host,
    /// In a file, which is mapped into the host's memory: the system reads what is used, and drops what it needs the memory for. The
    /// index then has all rows of the file from the start, and searches them as those of [`RowPlace::Host`].
    Mapped(PathBuf),
}
