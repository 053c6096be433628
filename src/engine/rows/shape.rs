//! The kind of rows that an index keeps, and where.

use crate::elements::ElementKind;
use crate::metric::Metric;
use crate::screen::Screen;

/// The kind of rows that an index keeps.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser's rows stay where they are"))]
pub(crate) struct RowShape {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    /// How many rows the caller expects.
    pub(crate) expected: u64,
    pub(crate) screen: Screen,
    pub(crate) kept: Kept,
    /// Whether the host answers alone when the device fails, where it has the rows.
    pub(crate) is_fallback: bool,
    /// Whether rows whose 8-bit copy the device has no memory for are streamed.
    pub(crate) streams: bool,
}

/// Where the rows of an index on a GPU are, each place with less of the device's memory than the one before. The host engine has all rows in
/// the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser's rows stay where they are"))]
pub(crate) enum Kept {
    OnDevice,
    /// On the device as long as it has memory for them, then in the host's memory.
    Auto,
    /// In the host's memory.
    Hybrid,
    /// In the host's memory, without a copy on the device: each search sends one, window by window.
    Streamed,
}

impl RowShape {
    /// Bytes of a row without padding.
    pub(crate) fn row_bytes(&self) -> usize {
        self.dim * self.elements.size()
    }
}
