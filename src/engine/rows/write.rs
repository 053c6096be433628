//! Writes new rows into slots: appended behind the end, or scattered into free ones.
//!
//! A change is prepared on copies of the lists of segments and of the bits of live slots ([`GpuChange`]), and then taken over by steps that
//! cannot fail. So after an error, or when its future is dropped, an index answers as before. Until then new rows lie in slots that
//! no search reads.

use crate::elements::{ElementKind, HostVectors, MatrixView};
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::{BufferVectors, encode_norms, reset_refused};
use crate::engine::rows::alive::Change;
use crate::engine::rows::moves::{GpuChange, STAGED_BYTES, Staged};
use crate::engine::rows::segments::{GpuRows, Segment, StoredRows};
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::gpu::{Buffer, BufferSlice, Commands, Request, RowLayout};
use crate::kernels::norms;
use crate::memory;

/// The slots and ids of new rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placing<'a> {
    /// A distinct slot for each row, none of which has one. They may lie behind the end.
    pub(crate) slots: &'a [u32],
    /// An id for each row.
    pub(crate) ids: &'a [u64],
    /// Slots that lose their rows at the same time.
    pub(crate) freed: &'a [u32],
}

/// Batches of rows from a device matrix are multiples of this, because bindings start at multiples of 256 bytes.
const ALIGNED_ROWS: usize = 16;

/// A change that is being prepared.
struct Entering<'a> {
    /// The segments after the change.
    segments: Vec<Segment>,
    quantized: Option<QuantizedRows>,
    /// Whether the centre moved, so that all rows are quantised again at the end.
    is_moved: bool,
    placing: Placing<'a>,
    refused: Buffer,
}

impl GpuRows {
    /// Writes rows into slots that no search reads yet.
    pub(crate) fn prepared_put<'f>(
        &'f self,
        source: Vectors<'f>,
        placing: &'f Placing<'f>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, GpuChange> {
        Box::pin(async move {
            debug_assert!(source.rows() == placing.slots.len() && source.rows() == placing.ids.len());
            let end = placing.slots.iter().max().map_or(0, |&slot| u64::from(slot) + 1).max(self.end());
            let gpu = self.gpu.clone();
            let refused = gpu.create_storage("refused", 8)?;
            reset_refused(&gpu, &refused).await?;
            let (segments, mut quantized) = self.reached(end)?;
            let is_moved = match &mut quantized {
                Some(quantized) => self.count(quantized, source).await?,
                None => false,
            };
            let entering = Entering { segments, quantized, is_moved, placing: *placing, refused };
            let is_appended = placing.slots.iter().zip(self.end() as u32..).all(|(&slot, next)| slot == next);
            let commands = match source {
                Vectors::Host(view) if is_appended && !self.layout.in_blocks => {
                    self.append(&entering, view, progress).await?
                }
                _ => self.scatter(&entering, source, progress).await?,
            };
            let parts = commands.read(&[(&entering.refused, 0, 8)]).await?;
            norms::check("rows", &parts[0])?;
            let Placing { slots, freed, .. } = *placing;
            let alive = Change::new(&gpu, self.alive.as_ref(), self.end() as u32, slots, freed).await?;
            let Entering { segments, quantized, is_moved, .. } = entering;
            Ok(GpuChange { segments, quantized, is_moved, alive })
        })
    }

    /// Counts new rows towards the centre: of those on the device a sample is read.
    async fn count(&self, quantized: &mut QuantizedRows, source: Vectors<'_>) -> Result<bool> {
        let matrix = match source {
            Vectors::Host(view) => return quantized.count(&self.gpu, view).await,
            Vectors::Device(matrix) => matrix,
        };
        let layout = RowLayout::new(ElementKind::F32, matrix.stride());
        let most = (STAGED_BYTES / layout.row_bytes()).max(1) as usize;
        let wanted = quantized.wanted(matrix.rows()).min(most) as u64;
        if wanted == 0 {
            return Ok(false);
        }
        let rows = matrix.rows() as u64;
        let numbers: Vec<u32> = (0..wanted).map(|number| (number * rows / wanted) as u32).collect();
        let from = [(BufferSlice::all(matrix.buffer()?), 0, rows as u32)];
        let mut sample = memory::with_room(numbers.len() * self.dim)?;
        self.gather_bytes(&from, layout, &numbers, |row| self.widen(layout, row, &mut sample)).await?;
        quantized.count(&self.gpu, MatrixView::new(&sample, self.dim)?.into()).await
    }

    /// Appends rows behind the end, straight from the host.
    async fn append(
        &self,
        entering: &Entering<'_>,
        rows: HostVectors<'_>,
        progress: RowProgress<'_>,
    ) -> Result<Commands<'_>> {
        let gpu = &*self.gpu;
        let mut commands = Commands::new(gpu, None);
        let first = self.end() as u32;
        let ids = entering.placing.ids;
        let mut done = 0;
        for segment in &entering.segments {
            let from = (first + done as u32).max(segment.first_slot) - segment.first_slot;
            let count = (segment.capacity.saturating_sub(from) as usize).min(rows.rows() - done);
            if count == 0 {
                continue;
            }
            let range = [from, from + count as u32];
            let offset = u64::from(from) * self.layout.row_bytes();
            let piece = rows.slice(done..done + count);
            let before = done;
            let mut sent = |sent| progress(before + sent);
            let StoredRows { rows: row_buffer, norms, ids: id_buffer, .. } = segment.stored()?;
            gpu.upload_rows(row_buffer, offset, self.layout, piece, &mut sent).await?;
            let piece_ids = bytemuck::cast_slice(&ids[done..done + count]);
            gpu.upload_bytes(id_buffer, u64::from(from) * 8, piece_ids).await?;
            let vectors = BufferVectors { values: row_buffer.into(), layout: self.layout };
            let into = (norms.into(), (&entering.refused).into());
            encode_norms(&mut commands, vectors, (range, done as u32), into)?;
            if let (Some(quantized), false) = (&entering.quantized, entering.is_moved) {
                quantized.encode(&mut commands, self.layout, segment, range)?;
            }
            done += count;
        }
        Ok(commands)
    }

    /// Puts rows into any slots: staged in pieces, with their norms, and scattered from there.
    async fn scatter(
        &self,
        entering: &Entering<'_>,
        source: Vectors<'_>,
        progress: RowProgress<'_>,
    ) -> Result<Commands<'_>> {
        let gpu = &*self.gpu;
        let Placing { slots, ids, .. } = entering.placing;
        let layout = self.layout.staged();
        let row_bytes = layout.row_bytes();
        let (staged_bytes, multiple) = match source {
            Vectors::Host(_) => (row_bytes, 1),
            Vectors::Device(_) => (0, ALIGNED_ROWS),
        };
        let piece = self.piece(slots.len(), &[staged_bytes, 8, 8, 4], multiple)?;
        let request_of = |purpose, bytes| Request { purpose, bytes: piece as u64 * bytes };
        let scratch = self
            .gpu
            .reserve(&[
                request_of("staged rows", staged_bytes),
                request_of("staged norms", 8),
                request_of("staged ids", 8),
                request_of("staged slots", 4),
            ])
            .await?;
        let mut done = 0;
        while done < slots.len() {
            let range = done..slots.len().min(done + piece);
            let count = range.len() as u32;
            let rows = match source {
                Vectors::Host(view) => {
                    let mut sent = |sent| progress(done + sent);
                    gpu.upload_rows(&scratch[0], 0, layout, view.slice(range.clone()), &mut sent).await?;
                    BufferSlice::all(&scratch[0])
                }
                Vectors::Device(matrix) => {
                    progress(range.end);
                    let offset = done as u64 * row_bytes;
                    BufferSlice::range(matrix.buffer()?, offset, u64::from(count) * row_bytes)
                }
            };
            gpu.upload_bytes(&scratch[2], 0, bytemuck::cast_slice(&ids[range.clone()])).await?;
            gpu.upload_bytes(&scratch[3], 0, bytemuck::cast_slice(&slots[range.clone()])).await?;
            let mut commands = Commands::new(gpu, None);
            let vectors = BufferVectors { values: rows, layout };
            let into = ((&scratch[1]).into(), (&entering.refused).into());
            encode_norms(&mut commands, vectors, ([0, count], done as u32), into)?;
            let staged = Staged {
                rows,
                norms: BufferSlice::all(&scratch[1]),
                ids: BufferSlice::all(&scratch[2]),
                list: BufferSlice::all(&scratch[3]),
                slots: &slots[range.clone()],
            };
            let quantized = entering.quantized.as_ref().filter(|_| !entering.is_moved);
            self.encode_scatter(&mut commands, &entering.segments, &staged, quantized)?;
            commands.submit();
            done = range.end;
        }
        Ok(Commands::new(gpu, None))
    }
}
