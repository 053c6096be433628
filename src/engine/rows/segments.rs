//! The rows of an index on a GPU: segments with rows, norms, ids and, if the index keeps one, a quantised copy.

use std::sync::Arc;

use crate::elements::ElementKind;
use crate::engine::lists::tables::GpuLists;
use crate::engine::pass::{BufferVectors, Refining, Table};
use crate::engine::rows::alive::Alive;
use crate::engine::rows::shape::RowShape;
use crate::engine::screens::int8::codes::{QuantizedRows, QuantizedSegment};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, Loan, RowLayout, Share};
use crate::kernels::{self, BLOCK_ROWS, quantize};
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Rows of an index on a GPU. Slots are numbered from one segment to the next.
#[derive(Debug)]
pub(crate) struct GpuRows {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) layout: RowLayout,
    pub(crate) dim: usize,
    pub(crate) segments: Vec<Segment>,
    /// How rows are quantised. If this is there, every segment has a quantised copy.
    pub(crate) quantized: Option<QuantizedRows>,
    /// Which slots have a row. None if all have.
    pub(crate) alive: Option<Alive>,
    /// Whether segments have the rows themselves. Otherwise the host has them, and segments have a quantised copy alone.
    pub(crate) keeps_rows: bool,
    /// The kind of rows that they become when they outgrow the device's memory; none where they stay.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser's rows stay where they are"))]
    pub(crate) outgrown: Option<RowShape>,
    /// Rows of a full segment.
    pub(crate) segment_rows: u32,
    /// Rows that the caller expects in total. Segments are made for them, so that they need not grow.
    expected: u64,
    pub(crate) lists: Option<GpuLists>,
}

/// Bytes of a row's norms and id.
pub(crate) const STORED_BYTES: u64 = 16;

/// Rows in buffers that fit one binding each.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// None where the host has the rows: see [`GpuRows::keeps_rows`].
    pub(crate) stored: Option<StoredRows>,
    pub(crate) quantized: Option<QuantizedSegment>,
    pub(crate) first_slot: u32,
    /// Slots up to the end, tombstones included.
    pub(crate) len: u32,
    /// Slots that fit the buffers.
    pub(crate) capacity: u32,
}

/// The rows of a segment as they are.
#[derive(Debug, Clone)]
pub(crate) struct StoredRows {
    pub(crate) rows: Buffer,
    /// Squared and inverse norm of each row.
    pub(crate) norms: Buffer,
    pub(crate) ids: Buffer,
    /// Their part of the memory of the device; none for a matrix of the caller's.
    pub(crate) share: Option<Arc<Share>>,
}

impl Segment {
    /// Blocks of 128 slots up to the end.
    pub(crate) fn blocks(&self) -> u32 {
        self.len.div_ceil(BLOCK_ROWS)
    }

    /// The rows as they are, which whatever computes distances on the device needs.
    pub(crate) fn stored(&self) -> Result<&StoredRows> {
        let missing = || Error::internal("a step needs rows on the device that the host has");
        self.stored.as_ref().ok_or_else(missing)
    }

    /// Lends the memory of the segment, which is about to be dropped.
    fn lent(&self) -> Loan {
        let stored = self.stored.iter().filter_map(|stored| stored.share.clone());
        Loan::new(stored.chain(self.quantized.iter().filter_map(|copy| copy.share.clone())))
    }

    /// The segment's rows as [`Refining`] takes them.
    pub(crate) fn table(&self, layout: RowLayout) -> Result<Table<'_>> {
        let StoredRows { rows, ids, .. } = self.stored()?;
        let vectors = BufferVectors { values: rows.into(), layout };
        Ok(Table { vectors, rows: self.len, first_slot: self.first_slot, ids: ids.into() })
    }
}

impl QuantizedRows {
    /// Quantises rows `range` of a segment that has a copy.
    pub(crate) fn encode(
        &self,
        commands: &mut Commands<'_>,
        layout: RowLayout,
        segment: &Segment,
        range: [u32; 2],
    ) -> Result<()> {
        let (Some(copy), true) = (&segment.quantized, range[0] < range[1]) else { return Ok(()) };
        let StoredRows { rows, norms, .. } = segment.stored()?;
        let rows = (BufferVectors { values: rows.into(), layout }, norms.into());
        self.encode_vectors(commands, rows, range, copy.integers(), None, false)
    }

    /// Quantises staged rows, with their norms, into the slots of a list that belong to a segment. `range` are positions on the list.
    pub(crate) fn encode_staged(
        &self,
        commands: &mut Commands<'_>,
        layout: RowLayout,
        (values, norms): (BufferSlice<'_>, BufferSlice<'_>),
        list: BufferSlice<'_>,
        segment: &Segment,
        range: [u32; 2],
    ) -> Result<()> {
        let (Some(copy), true) = (&segment.quantized, range[0] < range[1]) else { return Ok(()) };
        let rows = (BufferVectors { values, layout }, norms);
        let slots = quantize::Slots { list, first_slot: segment.first_slot, rows: segment.capacity };
        self.encode_vectors(commands, rows, range, copy.integers(), Some(slots), false)
    }
}

impl GpuRows {
    /// No rows yet. Without `keeps_rows`, the device has their quantised copy alone.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        (elements, dim): (ElementKind, usize),
        expected: u64,
        quantized: Option<QuantizedRows>,
        keeps_rows: bool,
    ) -> Result<Self> {
        // An error here comes before any row is uploaded; at the first search it would come after. Kernels that multiply matrices
        // are optional.
        for kernel in kernels::of_indexes().filter(|kernel| !kernel.multiplies_matrices) {
            gpu.compiler.check_limits(kernel)?;
        }
        let in_blocks = quantized.as_ref().is_some_and(|codes| codes.are_rows);
        let layout = RowLayout { in_blocks, ..RowLayout::padded(elements, dim) };
        // The quantised copy of short vectors may be larger than the rows.
        let quantized_bytes = quantized.as_ref().map_or(0, QuantizedRows::row_bytes);
        let row_bytes = if keeps_rows { layout.row_bytes() } else { 0 };
        let block_bytes = u64::from(BLOCK_ROWS) * row_bytes.max(quantized_bytes);
        // Slots and element numbers are u32.
        let blocks = (gpu.segment_bytes() / block_bytes).min((1 << 31) / u64::from(BLOCK_ROWS));
        if blocks == 0 {
            let needed = format!("{block_bytes} bytes in one binding, for {BLOCK_ROWS} rows");
            return Err(Error::unsupported(format!("rows of dim {dim}"), needed, gpu.segment_bytes()));
        }
        let segment_rows = blocks as u32 * BLOCK_ROWS;
        let (gpu, segments, alive, outgrown, lists) = (gpu.clone(), vec![], None, None, None);
        Ok(Self {
            gpu,
            layout,
            dim,
            segments,
            quantized,
            alive,
            keeps_rows,
            outgrown,
            segment_rows,
            expected,
            lists,
        })
    }

    /// Rows of which the device has the quantised copy alone: that of these rows, in segments without the rows themselves.
    pub(crate) fn quantized_from(
        &self,
        quantized: QuantizedRows,
        segments: Vec<Segment>,
        alive: Option<Alive>,
    ) -> Self {
        let (gpu, quantized) = (self.gpu.clone(), Some(quantized));
        let &Self { layout, dim, segment_rows, expected, .. } = self;
        let (keeps_rows, outgrown, lists) = (false, None, None);
        Self {
            gpu,
            layout,
            dim,
            segments,
            quantized,
            alive,
            keeps_rows,
            outgrown,
            segment_rows,
            expected,
            lists,
        }
    }

    /// The rows of a matrix, to be searched: f32, with their norms, and with a u64 for each as its id.
    pub(crate) fn of_matrix(
        gpu: &Arc<Gpu>,
        dim: usize,
        count: u32,
        [rows, norms, ids]: [Buffer; 3],
    ) -> Result<Self> {
        let mut of_matrix = Self::new(gpu, (ElementKind::F32, dim), 0, None, true)?;
        let (first_slot, len, capacity) = (0, count, count);
        let stored = Some(StoredRows { rows, norms, ids, share: None });
        of_matrix.segments.push(Segment { stored, quantized: None, first_slot, len, capacity });
        Ok(of_matrix)
    }

    /// Records the distances of candidates that may lie in any segment: each segment in turn writes those of its rows.
    pub(crate) fn encode_refining(&self, commands: &mut Commands<'_>, refining: &Refining<'_>) -> Result<()> {
        for (number, segment) in self.segments.iter().enumerate() {
            refining.encode(commands, segment.table(self.layout)?, number == 0)?;
        }
        Ok(())
    }

    /// Bytes of a query, which is f32 whatever rows are.
    pub(crate) fn query_bytes(&self) -> u64 {
        self.layout.stride as u64 * 4
    }

    /// One past the last slot with a row. Slots before it may be tombstones: see [`GpuRows::alive`].
    pub(crate) fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| u64::from(last.first_slot) + u64::from(last.len))
    }

    pub(crate) fn len(&self) -> u64 {
        self.end() - self.alive.as_ref().map_or(0, |alive| alive.tombstones)
    }

    /// A bit for each slot below the end. None if every slot has a row.
    pub(crate) fn alive_buffer(&self) -> Option<&Buffer> {
        self.alive.as_ref().map(|alive| &alive.buffer)
    }

    /// Segments that reach up to slot `end`, and how they are quantised: not at all if the memory no longer suffices for it.
    pub(crate) fn reached(&self, end: u64) -> Result<(Vec<Segment>, Option<QuantizedRows>)> {
        let mut segments = self.segments.clone();
        let mut commands = Commands::new(&self.gpu, None);
        self.reach(&mut segments, end, &mut commands)?;
        // A grown segment has to be copied before rows are written behind it.
        commands.submit();
        let mut quantized = self.quantized.clone();
        if segments.iter().any(|segment| segment.quantized.is_none()) {
            quantized = None;
            segments.iter_mut().for_each(|segment| segment.quantized = None);
        }
        Ok((segments, quantized))
    }

    /// Makes room up to slot `end`: the last segment grows, or new ones follow. `commands` receive the copies.
    fn reach(&self, segments: &mut Vec<Segment>, end: u64, commands: &mut Commands<'_>) -> Result<()> {
        Error::check_slots(end)?;
        loop {
            let Some(last) = segments.last_mut() else {
                if end == 0 {
                    return Ok(());
                }
                segments.push(self.create(0, self.expected.max(end))?);
                continue;
            };
            let behind = u64::from(last.first_slot) + u64::from(last.capacity);
            if end <= behind {
                return Ok(());
            }
            if last.capacity < self.segment_rows {
                let grown = u64::from(last.capacity) * 3 / 2;
                let expected = self.expected.saturating_sub(last.first_slot.into());
                let needed = end - u64::from(last.first_slot);
                let wanted = grown.max(needed).max(expected);
                *last = match self.copied(last, wanted, commands) {
                    // There may be memory for fewer rows to come.
                    Err(error) if error.lacks_memory() && needed < wanted => {
                        self.copied(last, needed, commands)?
                    }
                    copied => copied?,
                };
                continue;
            }
            let expected = self.expected.saturating_sub(behind);
            segments.push(self.create(behind as u32, expected.max(end - behind))?);
        }
    }

    /// A segment of another capacity with the same rows.
    fn copied(&self, segment: &Segment, capacity: u64, commands: &mut Commands<'_>) -> Result<Segment> {
        let other = self.create(segment.first_slot, capacity)?;
        let rows = u64::from(segment.len);
        if let (Some(segment), Some(other)) = (&segment.stored, &other.stored) {
            if !self.layout.in_blocks {
                commands.copy((&segment.rows, 0), (&other.rows, 0), rows * self.layout.row_bytes());
            }
            commands.copy((&segment.norms, 0), (&other.norms, 0), rows * 8);
            commands.copy((&segment.ids, 0), (&other.ids, 0), rows * 8);
        }
        if let (Some(segment), Some(other)) = (&segment.quantized, &other.quantized) {
            // Blocks lie one after another, so the first bytes of both are the same blocks.
            commands.copy((&segment.rows, 0), (&other.rows, 0), segment.rows.size().min(other.rows.size()));
            commands.copy((&segment.terms, 0), (&other.terms, 0), rows * 16);
        }
        Ok(Segment { len: segment.len, ..other })
    }

    /// Frees memory behind the end if the last segment has more than twice the capacity that its rows, or the expected ones, need.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        let Some(last) = self.segments.last() else { return Ok(()) };
        let expected = self.expected.saturating_sub(last.first_slot.into());
        let needed = u64::from(last.len).max(expected).next_multiple_of(BLOCK_ROWS.into());
        if u64::from(last.capacity) <= 2 * needed {
            return Ok(());
        }
        if needed == 0 {
            self.segments.pop();
            return Ok(());
        }
        // The smaller segment takes memory that the larger one gives back.
        let loan = last.lent();
        let mut commands = Commands::new(&self.gpu, None);
        let smaller = self.copied(last, needed, &mut commands)?;
        // Without memory for a second quantised copy, the segment stays as it is.
        if smaller.quantized.is_some() == last.quantized.is_some() {
            commands.submit();
            self.segments.pop();
            self.segments.push(smaller);
            loan.settle();
        }
        Ok(())
    }

    fn create(&self, first_slot: u32, rows: u64) -> Result<Segment> {
        let capacity = rows.min(self.segment_rows.into()).next_multiple_of(BLOCK_ROWS.into());
        let copy = || match &self.quantized {
            Some(quantized) => quantized.within_limit(&self.gpu, capacity),
            None => Ok(None),
        };
        let stored = |codes: Option<&QuantizedSegment>| {
            let purpose = || format!("rows, norms and ids of {capacity} rows");
            let row_bytes = if codes.is_some() { 0 } else { self.layout.row_bytes() };
            let share = self.gpu.rows_limit.take(purpose, capacity * (row_bytes + STORED_BYTES))?;
            let rows = match codes {
                Some(codes) => codes.rows.clone(),
                None => self.gpu.create_storage("rows", capacity * row_bytes)?,
            };
            let norms = self.gpu.create_storage("norms", capacity * 8)?;
            let ids = self.gpu.create_storage("ids", capacity * 8)?;
            Ok(StoredRows { rows, norms, ids, share: Some(share) })
        };
        let (stored, quantized) = if self.layout.in_blocks {
            let codes = copy()?;
            (Some(stored(codes.as_ref())?), codes)
        } else {
            // Rows come before an optional copy.
            let stored = if self.keeps_rows { Some(stored(None)?) } else { None };
            (stored, copy()?)
        };
        Ok(Segment { stored, quantized, first_slot, len: 0, capacity: capacity as u32 })
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        for segment in &self.segments {
            if let Some(StoredRows { rows, norms, ids, .. }) = &segment.stored {
                memory.add("rows", Residency::Device, rows.size());
                memory.add("norms", Residency::Device, norms.size());
                memory.add("ids", Residency::Device, ids.size());
            }
            if let Some(copy) = &segment.quantized {
                // Rows that are their own codes are counted above.
                let codes = if self.layout.in_blocks { 0 } else { copy.rows.size() };
                memory.add("integers", Residency::Device, codes + copy.terms.size());
            }
        }
        if let Some(alive) = &self.alive {
            memory.add("tombstones", Residency::Device, alive.buffer.size());
            memory.add("tombstones", Residency::Host, 4 * alive.bits.words().len() as u64);
        }
        self.lists.iter().for_each(|lists| lists.measure(memory));
    }
}

/// Ends the segments at slot `end`. Segments behind it are dropped, except for the first one.
pub(crate) fn cut(segments: &mut Vec<Segment>, end: u32) {
    let needed = segments.iter().filter(|segment| segment.first_slot < end).count().max(1);
    segments.truncate(needed);
    for segment in segments {
        segment.len = (end - segment.first_slot.min(end)).min(segment.capacity);
    }
}
