//! The device's part of a row store: segments of rows with their norms and ids.

use std::sync::Arc;

use super::narrowed::{NarrowedRows, NarrowedSegment};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::{self, BLOCK_ROWS, norms};
use crate::matrix::{Element, ElementKind, MatrixView};

/// Rows of an index on a GPU. Slots number them through, segment after segment.
#[derive(Debug)]
pub(crate) struct GpuRows {
    pub(super) gpu: Arc<Gpu>,
    pub(super) layout: RowLayout,
    pub(super) dim: usize,
    pub(super) segments: Vec<Segment>,
    /// How rows are narrowed, where a narrowed copy is kept: then every segment has one.
    pub(super) narrowed: Option<NarrowedRows>,
    /// Rows of a full segment.
    segment_rows: u32,
    /// Rows that the caller expects in all, so that segments need not grow.
    expected: u64,
}

/// Rows in one buffer each of rows, norms and ids, no larger than a binding.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) rows: wgpu::Buffer,
    /// Squared and inverse norm a row.
    pub(super) norms: wgpu::Buffer,
    pub(super) ids: wgpu::Buffer,
    pub(super) narrowed: Option<NarrowedSegment>,
    pub(super) first_slot: u32,
    pub(super) len: u32,
    capacity: u32,
}

impl Segment {
    /// Blocks of rows that hold the segment's rows.
    pub(super) fn blocks(&self) -> u32 {
        self.len.div_ceil(BLOCK_ROWS)
    }

    pub(super) fn rows_slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.rows)
    }
}

impl GpuRows {
    pub(super) fn new(
        gpu: Arc<Gpu>,
        elements: ElementKind,
        dim: usize,
        expected: u64,
        narrowed: Option<NarrowedRows>,
    ) -> Result<Self> {
        // Rather here than at the first search, after all rows were sent. What multiplies matrices is not used where it cannot be.
        for kernel in kernels::ALL.iter().filter(|kernel| !kernel.multiplies_matrices) {
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
        Ok(Self { gpu, layout, dim, segments: vec![], narrowed, segment_rows, expected })
    }

    pub(super) fn vectors(&self) -> u32 {
        (self.layout.stride / 4) as u32
    }

    /// Bytes of a query, which is f32 whatever the rows are.
    pub(super) fn vectors_bytes(&self) -> u64 {
        self.layout.stride as u64 * 4
    }

    pub(super) fn len(&self) -> u64 {
        self.segments.last().map_or(0, |last| u64::from(last.first_slot) + u64::from(last.len))
    }

    pub(super) async fn add<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        ids: &[u64],
        mut progress: impl FnMut(usize),
    ) -> Result<()> {
        let total = self.len() + rows.rows() as u64;
        if total >= u64::from(u32::MAX) {
            return Err(Error::Unsupported {
                what: "rows".into(),
                needed: format!("{total} slots"),
                available: format!("{}", u32::MAX - 1),
            });
        }
        let gpu = self.gpu.clone();
        let refused = gpu.create_storage("refused", 8)?;
        gpu.upload_bytes(&refused, 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(&gpu, None);
        // Everything happens on a copy of the list of segments: until it is taken over at the end, the index is as
        // it was. Rows behind a segment's length are never read as rows, whatever an unfinished call left there.
        let mut segments = self.segments.clone();
        let mut done = 0;
        while done < rows.rows() {
            let left = rows.rows() - done;
            let index = self.room(&mut segments, left, &mut commands)?;
            let segment = &mut segments[index];
            let count = left.min((segment.capacity - segment.len) as usize);
            let at = u64::from(segment.len);
            let offset = at * self.layout.row_bytes();
            let piece = rows.slice(done..done + count);
            // Copies of a grown segment have to be on their way before rows are written behind them.
            std::mem::replace(&mut commands, Commands::new(&gpu, None)).submit();
            let before = done;
            gpu.upload_rows(&segment.rows, offset, self.layout, piece, |uploaded| {
                progress(before + uploaded)
            })
            .await?;
            gpu.upload_bytes(&segment.ids, at * 8, bytemuck::cast_slice(&ids[done..done + count])).await?;
            norms::encode(
                &mut commands,
                &norms::Norms {
                    rows: segment.rows_slice(),
                    elements: self.layout.elements,
                    vectors: self.vectors(),
                    range: [segment.len, segment.len + count as u32],
                    first_number: done as u32,
                    norms: BufferSlice::all(&segment.norms),
                    refused: BufferSlice::all(&refused),
                },
            )?;
            segment.len += count as u32;
            done += count;
        }
        let parts = commands.read(&[(&refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        let mut narrowed = self.narrowed.clone();
        if segments.iter().any(|segment| segment.narrowed.is_none()) {
            narrowed = None;
            segments.iter_mut().for_each(|segment| segment.narrowed = None);
        }
        if let Some(narrowed) = &mut narrowed {
            narrowed.narrow(&gpu, self.layout, &segments, rows, self.len()).await?;
        }
        self.segments = segments;
        self.narrowed = narrowed;
        Ok(())
    }

    /// A segment with room for at least one more row: the last one, grown if it may, or a new one.
    fn room(&self, segments: &mut Vec<Segment>, wanted: usize, commands: &mut Commands<'_>) -> Result<usize> {
        if let Some(last) = segments.last_mut() {
            if last.len < last.capacity {
                return Ok(segments.len() - 1);
            }
            if last.capacity < self.segment_rows {
                let grown = u64::from(last.capacity) * 3 / 2;
                let expected = self.expected.saturating_sub(last.first_slot.into());
                let wanted = grown.max(u64::from(last.capacity) + wanted as u64).max(expected);
                let larger = self.create(last.first_slot, wanted)?;
                let rows = u64::from(last.len);
                commands.copy((&last.rows, 0), (&larger.rows, 0), rows * self.layout.row_bytes());
                commands.copy((&last.norms, 0), (&larger.norms, 0), rows * 8);
                commands.copy((&last.ids, 0), (&larger.ids, 0), rows * 8);
                if let (Some(last), Some(larger)) = (&last.narrowed, &larger.narrowed) {
                    // Blocks lie one behind the other.
                    commands.copy((&last.rows, 0), (&larger.rows, 0), last.rows.size());
                    commands.copy((&last.terms, 0), (&larger.terms, 0), rows * 16);
                }
                *last = Segment { len: last.len, ..larger };
                return Ok(segments.len() - 1);
            }
        }
        let first_slot = segments.last().map_or(0, |last| last.first_slot + last.len);
        let expected = self.expected.saturating_sub(first_slot.into());
        segments.push(self.create(first_slot, expected.max(wanted as u64))?);
        Ok(segments.len() - 1)
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
