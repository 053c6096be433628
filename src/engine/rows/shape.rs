//! The kind of rows that an index keeps, and where.

use crate::elements::ElementKind;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;

/// The kind of rows that an index keeps.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser's rows stay where they are"))]
pub(crate) struct RowShape {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    /// How many rows the caller expects.
    pub(crate) expected: u64,
    pub(crate) quantization: Quantization,
    /// Where a GPU's rows are: never `Mapped`, which rows on the host are to a GPU. The host engine has all rows in the host's memory.
    pub(crate) kept: Residency,
    /// Whether the host answers alone when the device fails, where it has the rows.
    pub(crate) is_fallback: bool,
    /// Whether rows whose 8-bit copy the device has no memory for are streamed.
    pub(crate) streams: bool,
}

impl RowShape {
    /// Bytes of a row without padding.
    pub(crate) fn row_bytes(&self) -> usize {
        self.dim * self.elements.size()
    }
}
