//! Copies of rows: of some rows for a caller, and of a caller's as rows.

use std::sync::Arc;

use crate::elements::HostVectors;
use crate::error::Result;
use crate::host::processor::Host;
use crate::host::rows::norms;
use crate::host::rows::store::{HostRows, WORK};
use crate::interrupt;
use crate::memory;
use crate::metric::Metric;

impl HostRows {
    /// Copies of rows, one slot after the other, under these ids.
    pub(crate) fn of_copies(
        host: Arc<Host>,
        metric: Metric,
        rows: HostVectors<'_>,
        ids: Vec<u64>,
    ) -> Result<Self> {
        let mut copies = Self::new(host, metric, rows.kind(), rows.dim(), false);
        let squared = norms::checked("rows", rows)?;
        copies.values.reserve(ids.len())?;
        copies.values.append(rows, &squared);
        copies.ids = ids;
        Ok(copies)
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(crate) fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        self.check_file()?;
        let mut scratch = vec![0.0; self.dim()];
        let mut rows = memory::with_room(slots.len() * self.dim())?;
        for slots in slots.chunks((WORK / self.dim()).max(1)) {
            interrupt::check()?;
            let each = |&slot: &u32| rows.extend_from_slice(self.values.row(slot as usize, &mut scratch));
            slots.iter().for_each(each);
        }
        Ok(rows)
    }

    /// The bytes of the rows in these slots, `[slots, dim]`, as they are stored.
    pub(crate) fn fetch_bytes(&self, slots: &[u32]) -> Result<Vec<u8>> {
        self.check_file()?;
        let row_bytes = self.dim() * self.values.kind().size();
        let mut bytes = memory::with_room(slots.len() * row_bytes)?;
        for slots in slots.chunks((WORK / self.dim()).max(1)) {
            interrupt::check()?;
            slots.iter().for_each(|&slot| self.values.append_bytes(slot as usize, &mut bytes));
        }
        Ok(bytes)
    }
}
