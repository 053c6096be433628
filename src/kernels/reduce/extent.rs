//! Where rows lie in a buffer.

use crate::elements::ElementKind;
use crate::error::{Error, Result};
use crate::gpu::BufferSlice;

/// Rows in a buffer, counted in elements. Kernels load them as vectors of four.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) first: u32,
    pub(super) stride: u32,
    pub(super) length: u32,
    pub(super) rows: u32,
}

impl Extent {
    /// The most vectors that a row touches.
    pub(super) fn vectors(self) -> u64 {
        // Where rows start anywhere in a vector, some touch one vector more than others.
        let start = if self.rows == 1 || self.stride.is_multiple_of(4) { self.first % 4 } else { 3 };
        (u64::from(start) + u64::from(self.length)).div_ceil(4).max(1)
    }

    /// An error unless the rows lie within a buffer.
    pub(super) fn check(
        self,
        argument: &'static str,
        elements: ElementKind,
        slice: BufferSlice<'_>,
    ) -> Result<()> {
        let between = u64::from(self.rows.saturating_sub(1)) * u64::from(self.stride);
        let end = u64::from(self.first) + between + u64::from(self.length);
        // Kernels load whole vectors of four, and count elements in u32. A vector that is not whole in the buffer is out of
        // bounds, and reads as something else on some adapters.
        let bytes = end.next_multiple_of(4) * elements.size() as u64;
        if bytes > slice.bytes || end > u64::from(u32::MAX - 3) {
            let needed = format!("{bytes} bytes for {} rows in whole vectors of four", self.rows);
            return Err(Error::argument(argument, needed, format!("{} bytes", slice.bytes)));
        }
        Ok(())
    }
}
