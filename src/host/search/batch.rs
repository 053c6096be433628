//! Queries in batches that fit the scratch memory, widened to f32.

use std::ops::Range;

use crate::elements::{HostVectors, MatrixView};
use crate::error::Result;
use crate::host::search::request::HostRequest;
use crate::host::search::schedule::Schedule;
use crate::memory;

/// Queries in f32, with their squared norms.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) vectors: MatrixView<'a, f32>,
    pub(crate) squared: &'a [f64],
}

impl Batch<'_> {
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        Self { vectors: self.vectors.slice(range.clone()), squared: &self.squared[range] }
    }
}

/// Searches queries in the batches of a schedule, and reports progress after each.
pub(crate) fn by_batch(
    (queries, squared): (HostVectors<'_>, &[f64]),
    schedule: &Schedule,
    request: &HostRequest<'_>,
    mut search: impl FnMut(Batch<'_>) -> Result<()>,
) -> Result<()> {
    let mut scratch = vec![];
    let most = queries.rows().min(schedule.batch.max(1));
    if !queries.kind().is_wide() {
        memory::reserve(&mut scratch, most * queries.dim())?;
    }
    for start in (0..queries.rows()).step_by(most.max(1)) {
        if start > 0 {
            // Earlier results took memory.
            memory::check_scratch(schedule.scratch_bytes)?;
        }
        let range = start..queries.rows().min(start + most);
        let values = queries.slice(range.clone()).elements().widened_in(&mut scratch);
        let vectors = MatrixView::new(values, queries.dim())?;
        search(Batch { vectors, squared: &squared[range.clone()] })?;
        if let Some(progress) = request.progress {
            progress(range.end);
        }
    }
    Ok(())
}
