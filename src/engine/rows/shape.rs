//! The kind of rows that an index keeps, and where.

use crate::matrix::ElementKind;
use crate::metric::Metric;
use crate::screen::Screen;

/// The kind of rows that an index keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    /// How many rows the caller expects.
    pub(crate) expected: u64,
    pub(crate) screen: Screen,
    pub(crate) kept: Kept,
}

/// Where the rows of an index on a GPU are. The host engine has all rows in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    OnDevice,
    /// In the host's memory. `is_fallback` says whether the host answers alone when the device fails.
    Apart {
        is_fallback: bool,
    },
}
