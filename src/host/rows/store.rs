//! The rows of an index in the host's memory, by slot: what writes, reads and moves them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::{ElementKind, HostVectors};
use crate::error::{Error, Result};
use crate::gpu::Share;
use crate::host::integers::packed::{GROUP, PackedRows};
use crate::host::processor::Host;
use crate::host::rows::group::GroupTerms;
use crate::host::rows::mapped::MappedRows;
use crate::host::rows::norms;
use crate::host::rows::quantized::QuantizedRows;
use crate::host::rows::values::RowValues;
use crate::memory;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::screen::certificate::are_codes;

/// Rows of an index on the host engine, by slot.
#[derive(Debug)]
pub(crate) struct HostRows {
    pub(crate) host: Arc<Host>,
    pub(crate) metric: Metric,
    pub(crate) values: RowValues,
    pub(crate) ids: Vec<u64>,
    /// The slots that have a row; none when all have.
    pub(crate) alive: Option<Bits>,
    pub(crate) quantized: Option<QuantizedRows>,
    /// The number of expected rows, whose memory is never freed.
    pub(super) expected: usize,
    /// The number of rows for which memory is reserved.
    pub(super) room: usize,
    /// The bytes of that memory, taken from the host's limit.
    pub(super) share: Share,
}

/// A change of rows that has all its memory.
#[derive(Debug)]
pub(crate) struct HostChange {
    /// The squared norms of new rows.
    squared: Vec<f64>,
    /// One past the last slot before the change, and while it is made.
    before: usize,
    most: usize,
    /// The end and the slots that have a row when the change is made.
    end: usize,
    alive: Option<Bits>,
    /// A flag for each group of a quantised copy.
    is_changed: Vec<bool>,
}

/// Parts that many rows are added in, with a report of progress after each.
const PIECES: usize = 64;
/// Rows of a part at least.
const PIECE: usize = 4096;

/// Elements that are cleared, moved or copied between two looks at whether to stop.
pub(super) const WORK: usize = 1 << 24;

/// Tells between the pieces of a change whether to go on. An error undoes the change.
pub(crate) type Check = fn() -> Result<()>;

impl HostRows {
    pub(crate) fn new(
        host: Arc<Host>,
        metric: Metric,
        elements: ElementKind,
        dim: usize,
        is_quantized: bool,
    ) -> Self {
        let are_codes = is_quantized && are_codes(metric, elements, dim);
        let (values, quantized) = match are_codes {
            true => (RowValues::whole(elements, dim), Some(QuantizedRows::of_codes(metric, elements, dim))),
            false => (RowValues::new(elements, dim), is_quantized.then(|| QuantizedRows::new(metric, dim))),
        };
        Self::with((host, metric), values, (vec![], None), quantized)
    }

    fn with(
        (host, metric): (Arc<Host>, Metric),
        values: RowValues,
        (ids, alive): (Vec<u64>, Option<Bits>),
        quantized: Option<QuantizedRows>,
    ) -> Self {
        let share = host.rows_limit.share();
        Self { host, metric, values, ids, alive, quantized, expected: 0, room: 0, share }
    }

    /// The rows of a matrix, to be searched: row numbers are their ids.
    pub(crate) fn of_matrix(
        host: Arc<Host>,
        metric: Metric,
        dim: usize,
        values: Arc<Vec<f32>>,
        squared: &[f64],
    ) -> Result<Self> {
        let mut ids = memory::with_room(squared.len())?;
        ids.extend(0..squared.len() as u64);
        let values = RowValues::shared(values, dim, memory::copied(squared)?);
        Ok(Self::with((host, metric), values, (ids, None), None))
    }

    /// Rows of a file, with the id of each slot. They can be found when [`enter`](Self::enter) has seen all of them.
    pub(crate) fn of_file(
        host: Arc<Host>,
        metric: Metric,
        rows: MappedRows,
        (ids, alive): (Vec<u64>, Option<Bits>),
        is_quantized: bool,
    ) -> Result<Self> {
        let quantized = is_quantized.then(|| QuantizedRows::new(metric, rows.dim));
        let (slots, values) = (ids.len(), RowValues::mapped(rows));
        let mut rows = Self::with((host, metric), values, (ids, alive), quantized);
        rows.reserve(slots)?;
        rows.resize(slots)?;
        Ok(rows)
    }

    /// Counts a sample of the rows of a file towards the centre.
    pub(crate) fn count(&mut self, sample: HostVectors<'_>) -> Result<()> {
        self.quantized.as_mut().map_or(Ok(()), |quantized| quantized.count(sample).map(drop))
    }

    /// Checks rows of a file and quantises them. `rows` are copies of those in these slots.
    pub(crate) fn enter(&mut self, slots: &[u32], rows: HostVectors<'_>) -> Result<()> {
        let squared = norms::checked("rows", rows)?;
        slots.iter().zip(&squared).for_each(|(&slot, &squared)| self.values.squared[slot as usize] = squared);
        match &mut self.quantized {
            Some(quantized) => quantized.quantize_rows(slots, rows, &squared),
            None => Ok(()),
        }
    }

    /// Takes rows that the device had, in slots below the end.
    pub(crate) fn receive(&mut self, (slots, ids): (&[u32], &[u64]), rows: HostVectors<'_>) -> Result<()> {
        let squared = norms::checked("rows", rows)?;
        for (row, (&slot, &id)) in slots.iter().zip(ids).enumerate() {
            self.values.write(slot as usize, rows.row(row), squared[row]);
            self.ids[slot as usize] = id;
        }
        Ok(())
    }

    pub(crate) fn residency(&self) -> Residency {
        if self.values.file().is_some() { Residency::Mapped } else { Residency::Host }
    }

    /// The rows, where they lie in a file.
    pub(crate) fn in_file(&self) -> Option<&Self> {
        self.values.file().map(|_| self)
    }

    /// An error if the rows lie in a file that was written to since it was mapped.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.values.file().map_or(Ok(()), |rows| rows.file.check())
    }

    /// Reserves memory for the rows that are expected.
    pub(crate) fn expecting(mut self, rows: u64) -> Result<Self> {
        self.expected =
            usize::try_from(rows).map_err(|_| memory::out_of_memory(self.values.bytes_of(rows)))?;
        self.reserve(self.expected)?;
        Ok(self)
    }

    pub(crate) fn dim(&self) -> usize {
        self.values.dim
    }

    /// One past the last slot that has a row.
    pub(crate) fn end(&self) -> usize {
        self.ids.len()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.alive.as_ref().map_or(self.end(), Bits::count_ones)
    }

    /// The slots that have a row; none when all below the end have.
    pub(crate) fn alive(&self) -> Option<&Bits> {
        self.alive.as_ref()
    }

    pub(crate) fn is_quantized(&self) -> bool {
        self.quantized.is_some()
    }

    /// The codes of rows and their terms: a copy, or the rows themselves.
    pub(crate) fn codes(&self) -> Option<(&PackedRows, &[GroupTerms])> {
        let quantized = self.quantized.as_ref()?;
        Some((quantized.copy.as_ref().or(self.values.codes())?, &quantized.terms))
    }

    /// Checks new rows and takes the memory of a change: slots without a row are filled, others are freed.
    pub(crate) fn prepared(
        &mut self,
        rows: Option<HostVectors<'_>>,
        filled: &[u32],
        freed: &[u32],
    ) -> Result<HostChange> {
        if let (Some(mapped), false) = (self.values.file(), filled.is_empty()) {
            let needed = "rows on the device or in the host's memory, to add, update or move them";
            return Err(Error::unsupported(
                "a change of rows in a file",
                needed,
                mapped.file.path().display(),
            ));
        }
        let squared = rows.map_or(Ok(vec![]), |rows| norms::checked("rows", rows))?;
        let most = filled.iter().max().map_or(0, |&slot| slot as usize + 1).max(self.end());
        let (end, alive) = Bits::after(self.alive.as_ref(), self.end(), filled, freed)?;
        let groups = if self.is_quantized() && rows.is_some() { most.div_ceil(GROUP) } else { 0 };
        let is_changed = memory::filled(groups, false)?;
        self.reserve(most)?;
        Ok(HostChange { squared, before: self.end(), most, end, alive, is_changed })
    }

    /// Writes rows into the slots that a change fills. Then the change is applied or undone, before any search.
    pub(crate) fn put(
        &mut self,
        rows: HostVectors<'_>,
        places: (&[u32], &[u64]),
        change: &mut HostChange,
        (progress, check): (&mut dyn FnMut(usize), Check),
    ) -> Result<()> {
        // `progress` and `check` are the caller's and may panic.
        let written = catch_unwind(AssertUnwindSafe(|| self.write(rows, places, change, (progress, check))));
        if !matches!(written, Ok(Ok(()))) {
            self.undo(change);
        }
        written.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Drops what was written for a change. Rows in tombstones lie in slots that no search reads; behind the end nothing may be left.
    pub(crate) fn undo(&mut self, change: &HostChange) {
        self.truncate(change.before);
    }

    /// Writes new rows and quantises them. None of them is alive yet.
    fn write(
        &mut self,
        rows: HostVectors<'_>,
        (slots, ids): (&[u32], &[u64]),
        change: &mut HostChange,
        (progress, check): (&mut dyn FnMut(usize), Check),
    ) -> Result<()> {
        let HostChange { squared, most, is_changed, .. } = change;
        let before = self.end();
        // Then the memory is written once. A quantised copy is made in groups, which need all of their rows to be there.
        let is_appended = self.quantized.is_none()
            && self.values.kind() == rows.kind()
            && *most == before + rows.rows()
            && slots.iter().zip(before..).all(|(&slot, next)| slot as usize == next);
        if !is_appended {
            self.grow(*most, check)?;
        }
        if let Some(quantized) = &mut self.quantized
            && quantized.count(rows)?
        {
            // The centre has moved: it does so while there are few rows.
            is_changed[..before.div_ceil(GROUP)].fill(true);
            self.quantize(is_changed);
        }
        let piece = rows.rows().div_ceil(PIECES).max(PIECE);
        for start in (0..rows.rows()).step_by(piece) {
            let range = start..rows.rows().min(start + piece);
            if is_appended {
                self.values.append(rows.slice(range.clone()), &squared[range.clone()]);
                self.ids.extend_from_slice(&ids[range.clone()]);
            } else {
                for row in range.clone() {
                    let slot = slots[row] as usize;
                    self.values.write(slot, rows.row(row), squared[row]);
                    self.ids[slot] = ids[row];
                }
            }
            if self.is_quantized() {
                slots[range.clone()].iter().for_each(|&slot| is_changed[slot as usize / GROUP] = true);
                self.quantize(is_changed);
            }
            progress(range.end);
            check()?;
        }
        Ok(())
    }

    /// Resizes to `slots` slots step by step, because clearing much memory takes long.
    fn grow(&mut self, slots: usize, check: Check) -> Result<()> {
        let step = (WORK / self.dim()).max(1);
        while self.end() < slots {
            check()?;
            self.resize(slots.min(self.end() + step))?;
        }
        Ok(())
    }

    /// Applies a change whose rows are written: those that it frees are gone, and the end may move down.
    pub(crate) fn apply(&mut self, change: HostChange) {
        self.truncate(change.end);
        self.alive = change.alive;
    }

    /// Copies rows, with their ids, from slots to as many free ones. The change that is applied then frees the former.
    pub(crate) fn relocate(
        &mut self,
        from: &[u32],
        to: &[u32],
        change: &HostChange,
        check: Check,
    ) -> Result<()> {
        let moved = self.grow(change.most, check).and_then(|()| self.copy_rows(from, to, check));
        if moved.is_err() {
            self.undo(change);
        }
        moved
    }

    fn copy_rows(&mut self, from: &[u32], to: &[u32], check: Check) -> Result<()> {
        let piece = (WORK / self.dim()).max(1);
        for (from, to) in from.chunks(piece).zip(to.chunks(piece)) {
            check()?;
            for (&from, &to) in from.iter().zip(to) {
                let (from, to) = (from as usize, to as usize);
                self.values.relocate(from, to);
                self.ids[to] = self.ids[from];
                if let Some(quantized) = &mut self.quantized {
                    quantized.relocate(from, to);
                }
            }
        }
        Ok(())
    }

    /// Quantises the rows of the groups whose flag is set, and clears the flags.
    fn quantize(&mut self, is_changed: &mut [bool]) {
        let end = self.end();
        if let Some(quantized) = &mut self.quantized {
            quantized.quantize_groups(is_changed, &self.values, end);
            is_changed.fill(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::MatrixView;
    use crate::options::device::DeviceOptions;

    #[test]
    fn expected_rows_do_not_move_and_their_memory_is_kept() {
        let host = Arc::new(Host::new(DeviceOptions::default()));
        let rows = HostRows::new(host, Metric::L2, ElementKind::F32, 4, true);
        let mut rows = rows.expecting(1000).expect("memory");
        let before = rows.values.allocation();
        assert!(before.1 >= 4000 && rows.end() == 0);
        for slot in 0..1000u32 {
            let row = [slot as f32; 4];
            let view = MatrixView::new(&row, 4).expect("a row");
            let mut change = rows.prepared(Some(view.into()), &[slot], &[]).expect("memory");
            rows.put(view.into(), (&[slot], &[slot.into()]), &mut change, (&mut |_| (), || Ok(())))
                .expect("a row");
            rows.apply(change);
        }
        let change = rows.prepared(None, &[], &(10..1000).collect::<Vec<u32>>()).expect("memory");
        rows.apply(change);
        rows.shrink();
        assert_eq!((rows.values.allocation(), rows.len()), (before, 10));
    }
}
