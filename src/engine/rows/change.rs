//! A change of rows on a GPU that is ready, and the steps that take it over.

use crate::engine::rows::alive::Change;
use crate::engine::rows::narrowed::NarrowedRows;
use crate::engine::rows::segments::{GpuRows, Segment, cut};
use crate::error::Result;
use crate::gpu::Commands;

/// A change of rows that is ready. Until it is applied, searches see nothing of it.
pub(crate) struct GpuChange {
    /// The segments after the change.
    pub(crate) segments: Vec<Segment>,
    pub(crate) narrowed: Option<NarrowedRows>,
    /// Whether the centre moved, so that all rows have to be narrowed again.
    pub(crate) is_moved: bool,
    pub(crate) alive: Change,
}

impl GpuRows {
    /// Takes over a change.
    ///
    /// # Errors
    /// Faults of this library alone, and then nothing is changed: all memory was taken before.
    pub(crate) fn apply(&mut self, change: GpuChange) -> Result<()> {
        let GpuChange { mut segments, narrowed, is_moved, alive } = change;
        let gpu = self.gpu.clone();
        cut(&mut segments, alive.end);
        if let (Some(narrowed), true) = (&narrowed, is_moved) {
            let mut commands = Commands::new(&gpu, None);
            for segment in &segments {
                narrowed.encode(&mut commands, self.layout, segment, [0, segment.len])?;
            }
            commands.submit();
        }
        self.segments = segments;
        self.narrowed = narrowed;
        alive.apply(&gpu, &mut self.alive);
        Ok(())
    }
}
