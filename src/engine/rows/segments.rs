//! The device's part of a row store: segments of rows with their norms and ids.

use std::sync::Arc;

use crate::engine::rows::alive::Alive;
use crate::engine::rows::narrowed::{NarrowedRows, NarrowedSegment};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::{self, BLOCK_ROWS};
use crate::matrix::ElementKind;

/// Rows of an index on a GPU. Slots number them through, segment after segment.
#[derive(Debug)]
pub(crate) struct GpuRows {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) layout: RowLayout,
    pub(crate) dim: usize,
    pub(crate) segments: Vec<Segment>,
    /// How rows are narrowed, where a narrowed copy is kept: then every segment has one.
    pub(crate) narrowed: Option<NarrowedRows>,
    /// Which slots have a row, where not all do.
    pub(crate) alive: Option<Alive>,
    /// Rows of a full segment.
    segment_rows: u32,
    /// Rows that the caller expects in all, so that segments need not grow.
    expected: u64,
}

/// Rows in one buffer each of rows, norms and ids, no larger than a binding.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) rows: wgpu::Buffer,
    /// Squared and inverse norm a row.
    pub(crate) norms: wgpu::Buffer,
    pub(crate) ids: wgpu::Buffer,
    pub(crate) narrowed: Option<NarrowedSegment>,
    pub(crate) first_slot: u32,
    /// Slots up to the end, gaps among them.
    pub(crate) len: u32,
    /// Slots that there is room for.
    pub(crate) capacity: u32,
}

impl Segment {
    /// Blocks of rows that hold the segment's rows.
    pub(crate) fn blocks(&self) -> u32 {
        self.len.div_ceil(BLOCK_ROWS)
    }

    pub(crate) fn rows_slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.rows)
    }
}

impl GpuRows {
    pub(crate) fn new(
        gpu: Arc<Gpu>,
        elements: ElementKind,
        dim: usize,
        expected: u64,
        narrowed: Option<NarrowedRows>,
    ) -> Result<Self> {
        // Rather here than at the first search, after all rows were sent. What multiplies matrices is not used where it cannot be.
        for kernel in kernels::all().filter(|kernel| !kernel.multiplies_matrices) {
            gpu.check_limits(kernel)?;
        }
        let layout = RowLayout::padded(elements, dim);
        // Of short vectors the narrowed copy may be larger than the rows.
        let narrowed_bytes = narrowed.as_ref().map_or(0, NarrowedRows::row_bytes);
        let block_bytes = u64::from(BLOCK_ROWS) * layout.row_bytes().max(narrowed_bytes);
        // Slots and element numbers are u32.
        let blocks = (gpu.segment_bytes() / block_bytes).min((1 << 31) / u64::from(BLOCK_ROWS));
        if blocks == 0 {
            return Err(Error::Unsupported {
                what: format!("rows of dim {dim}"),
                needed: format!("{block_bytes} bytes in one binding, for {BLOCK_ROWS} rows"),
                available: gpu.segment_bytes().to_string(),
            });
        }
        let segment_rows = blocks as u32 * BLOCK_ROWS;
        Ok(Self { gpu, layout, dim, segments: vec![], narrowed, alive: None, segment_rows, expected })
    }

    pub(crate) fn vectors(&self) -> u32 {
        (self.layout.stride / 4) as u32
    }

    /// Bytes of a query, which is f32 whatever the rows are.
    pub(crate) fn vectors_bytes(&self) -> u64 {
        self.layout.stride as u64 * 4
    }

    /// One past the last slot that has a row. Slots before it may be gaps: see [`GpuRows::alive`].
    pub(crate) fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| u64::from(last.first_slot) + u64::from(last.len))
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        self.end() - self.alive.as_ref().map_or(0, |alive| alive.gaps)
    }

    /// The bits of the slots below the end, where some have no row.
    pub(crate) fn alive_buffer(&self) -> Option<&wgpu::Buffer> {
        self.alive.as_ref().map(|alive| &alive.buffer)
    }

    /// The segments with room up to slot `end`, and how they are narrowed: not at all where there is no memory for it any more.
    pub(crate) fn reached(&self, end: u64) -> Result<(Vec<Segment>, Option<NarrowedRows>)> {
        let mut segments = self.segments.clone();
        let mut commands = Commands::new(&self.gpu, None);
        self.reach(&mut segments, end, &mut commands)?;
        // Copies of a grown segment have to be on their way before rows are written behind them.
        commands.submit();
        let mut narrowed = self.narrowed.clone();
        if segments.iter().any(|segment| segment.narrowed.is_none()) {
            narrowed = None;
            segments.iter_mut().for_each(|segment| segment.narrowed = None);
        }
        Ok((segments, narrowed))
    }

    /// Makes room up to slot `end`: the last segment grows, or others are made. What is copied is on its way with `commands`.
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
                let wanted = grown.max(end - u64::from(last.first_slot)).max(expected);
                *last = self.copied(last, wanted, commands)?;
                continue;
            }
            let expected = self.expected.saturating_sub(behind);
            segments.push(self.create(behind as u32, expected.max(end - behind))?);
        }
    }

    /// The rows of a segment in one with room for so many.
    fn copied(&self, segment: &Segment, room: u64, commands: &mut Commands<'_>) -> Result<Segment> {
        let other = self.create(segment.first_slot, room)?;
        let rows = u64::from(segment.len);
        commands.copy((&segment.rows, 0), (&other.rows, 0), rows * self.layout.row_bytes());
        commands.copy((&segment.norms, 0), (&other.norms, 0), rows * 8);
        commands.copy((&segment.ids, 0), (&other.ids, 0), rows * 8);
        if let (Some(segment), Some(other)) = (&segment.narrowed, &other.narrowed) {
            // Blocks lie one behind the other.
            commands.copy((&segment.rows, 0), (&other.rows, 0), segment.rows.size().min(other.rows.size()));
            commands.copy((&segment.terms, 0), (&other.terms, 0), rows * 16);
        }
        Ok(Segment { len: segment.len, ..other })
    }

    /// Gives up room behind the end, where the last segment has more than twice what its rows, or those that are expected, need.
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
        let mut commands = Commands::new(&self.gpu, None);
        let smaller = self.copied(last, needed, &mut commands)?;
        // Where there is no memory for a second copy, the first stays.
        if smaller.narrowed.is_some() == last.narrowed.is_some() {
            commands.submit();
            self.segments.pop();
            self.segments.push(smaller);
        }
        Ok(())
    }

    fn create(&self, first_slot: u32, rows: u64) -> Result<Segment> {
        let capacity = rows.min(self.segment_rows.into()).next_multiple_of(BLOCK_ROWS.into());
        Ok(Segment {
            rows: self.gpu.create_storage("rows", capacity * self.layout.row_bytes())?,
            norms: self.gpu.create_storage("norms", capacity * 8)?,
            ids: self.gpu.create_storage("ids", capacity * 8)?,
            narrowed: match &self.narrowed {
                Some(narrowed) => narrowed.room(&self.gpu, capacity)?,
                None => None,
            },
            first_slot,
            len: 0,
            capacity: capacity as u32,
        })
    }
}

/// Lets segments end with slot `end`. Those behind it are given up, but for the first.
pub(crate) fn cut(segments: &mut Vec<Segment>, end: u32) {
    let needed = segments.iter().filter(|segment| segment.first_slot < end).count().max(1);
    segments.truncate(needed);
    for segment in segments {
        segment.len = (end - segment.first_slot.min(end)).min(segment.capacity);
    }
}
