//! Uploads, through a ring of staging buffers.

use std::ops::Range;
use std::sync::LazyLock;

use crate::parallel::{self, ThreadPool, thread_pool};
use futures_intrusive::sync::SharedSemaphoreReleaser;

use super::device::Gpu;
use super::state::lock;
use crate::elements::{Element, ElementKind, HostVectors, with_type, with_view};
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::interrupt;
use crate::platform::CAN_WAIT;

/// Bytes of a staging buffer.
const PIECE_BYTES: u64 = 8 << 20;
/// Below this, one call of `write_buffer` is faster than the ring.
const SMALL_BYTES: u64 = 128 << 10;

/// Whether uploads go through the ring. A browser's mapped memory is not WebAssembly's own: writing to it would be a copy more.
const HAS_RING: bool = CAN_WAIT;

/// From this on, several threads fill a staging buffer: with fewer bytes, waking them takes longer than they save.
const MANY_BYTES: u64 = 1 << 20;
/// Bytes that each of their tasks copies.
const BYTES_A_TASK: u64 = 256 << 10;

/// Threads that fill staging buffers: more are no faster.
const COPY_THREADS: usize = 8;

/// The threads of all devices. Nothing but copies runs on them: on the pool that everybody shares, a thread that waits for a copy takes
/// up other work in the meantime, and a search among that work may wait for the scratch memory of this one.
static COPIERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(COPY_THREADS));
    thread_pool(threads, "nearfield copy").filter(|_| threads > 1)
});

/// A staging buffer with its contents. It goes back to the ring with [`Gpu::give_back`] after the submission that copies from it.
pub(super) struct Staged {
    pub(super) buffer: wgpu::Buffer,
    pub(super) bytes: u64,
    permit: SharedSemaphoreReleaser,
}

/// Writes a range of units into a part of a staging buffer.
type Fill<'a> = dyn Fn(Range<u64>, &mut wgpu::WriteOnly<'_, [u8]>) + Sync + 'a;

/// Rows in a buffer: elements of this type, `stride` of them a row, zeros behind the row's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLayout {
    pub(crate) elements: ElementKind,
    pub(crate) stride: usize,
    /// Whether rows lie as their codes do (`lib/rows/place.wgsl`), in place of one after another.
    pub(crate) in_blocks: bool,
}

impl RowLayout {
    /// Rows padded to whole vectors of four elements, so that kernels load vectors.
    pub(crate) fn padded(elements: ElementKind, dim: usize) -> Self {
        Self::new(elements, dim.next_multiple_of(4))
    }

    /// Rows of `stride` elements, one after another.
    pub(crate) fn new(elements: ElementKind, stride: usize) -> Self {
        Self { elements, stride, in_blocks: false }
    }

    /// The element type of rows that lie as their codes do.
    pub(crate) fn codes(self) -> Option<ElementKind> {
        self.in_blocks.then_some(self.elements)
    }

    /// The same rows one after another, as they are staged.
    pub(crate) fn staged(self) -> Self {
        Self { in_blocks: false, ..self }
    }

    /// Bytes a row, where rows lie one after another.
    pub(crate) fn row_bytes(self) -> u64 {
        (self.stride * self.elements.size()) as u64
    }

    /// Removes the padding between rows of `dim` f32 each that were read from the device.
    pub(crate) fn remove_padding(self, values: &mut Vec<f32>, dim: usize) {
        let (rows, stride) = (values.len() / self.stride, self.stride);
        if dim < stride {
            (1..rows).for_each(|row| values.copy_within(row * stride..row * stride + dim, row * dim));
            values.truncate(rows * dim);
        }
    }

    /// Whether rows lie in memory like this.
    pub(super) fn is_of(self, rows: HostVectors<'_>) -> bool {
        rows.kind() == self.elements && rows.dim() == self.stride
    }
}

impl Gpu {
    /// Copies rows into `buffer` from byte `offset` on. Resolves when the last piece is on its way;
    /// what is submitted afterwards sees the rows.
    ///
    /// The layout's element type holds every value of `rows`.
    pub(crate) fn upload_rows<'f>(
        &'f self,
        buffer: &'f wgpu::Buffer,
        offset: u64,
        layout: RowLayout,
        rows: HostVectors<'f>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let row_bytes = layout.row_bytes();
            let is_staged = HAS_RING && rows.rows() as u64 * row_bytes > SMALL_BYTES;
            let rows_a_piece = (PIECE_BYTES / row_bytes).max(1) as usize;
            let mut start = 0;
            while start < rows.rows() {
                let end = rows.rows().min(start + rows_a_piece);
                let (part, offset) = (rows.slice(start..end), offset + start as u64 * row_bytes);
                if is_staged {
                    let staged = self.stage_rows(layout, part).await?;
                    self.submit_copy(staged, buffer, offset);
                } else {
                    self.write_rows(buffer, offset, layout, part);
                }
                start = end;
                progress(start);
            }
            if rows.rows() == 0 {
                progress(0);
            }
            Ok(())
        })
    }

    /// Copies rows into `buffer` from byte `offset` on, in one piece.
    fn write_rows(&self, buffer: &wgpu::Buffer, offset: u64, layout: RowLayout, rows: HostVectors<'_>) {
        if layout.is_of(rows) {
            return self.queue.write_buffer(buffer, offset, rows.bytes());
        }
        let row_bytes = layout.row_bytes() as usize;
        let mut bytes = vec![0; rows.rows() * row_bytes];
        encode_rows(rows, layout, |row, encoded| {
            bytes[row * row_bytes..][..encoded.len()].copy_from_slice(encoded);
        });
        self.queue.write_buffer(buffer, offset, &bytes);
    }

    /// Whether rows of this many bytes are better recorded with the commands that use them than uploaded before.
    pub(super) fn stages(bytes: u64) -> bool {
        HAS_RING && (SMALL_BYTES + 1..=PIECE_BYTES).contains(&bytes)
    }

    /// Writes rows into a staging buffer.
    pub(super) async fn stage_rows(&self, layout: RowLayout, rows: HostVectors<'_>) -> Result<Staged> {
        let row_bytes = layout.row_bytes();
        let fill = |range: Range<u64>, view: &mut wgpu::WriteOnly<'_, [u8]>| {
            let part = rows.slice(range.start as usize..range.end as usize);
            if layout.is_of(rows) {
                view.copy_from_slice(part.bytes());
                return;
            }
            encode_rows(part, layout, |row, encoded| {
                let at = row * row_bytes as usize;
                view.slice(at..at + encoded.len()).copy_from_slice(encoded);
                view.slice(at + encoded.len()..at + row_bytes as usize).fill(0);
            });
        };
        self.stage(rows.rows() as u64 * row_bytes, row_bytes, &fill).await
    }

    /// Copies bytes into `buffer` from byte `offset` on; both multiples of 4.
    pub(crate) async fn upload_bytes(&self, buffer: &wgpu::Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !HAS_RING || bytes.len() as u64 <= SMALL_BYTES {
            self.queue.write_buffer(buffer, offset, bytes);
            return Ok(());
        }
        let mut at = offset;
        for piece in bytes.chunks(PIECE_BYTES as usize) {
            let fill = |words: Range<u64>, view: &mut wgpu::WriteOnly<'_, [u8]>| {
                view.copy_from_slice(&piece[words.start as usize * 4..words.end as usize * 4]);
            };
            let staged = self.stage(piece.len() as u64, 4, &fill).await?;
            self.submit_copy(staged, buffer, at);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes into the start of `buffer`, with zeros up to a multiple of 4.
    pub(crate) async fn upload_elements(&self, buffer: &wgpu::Buffer, bytes: &[u8]) -> Result<()> {
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.upload_bytes(buffer, 0, whole).await?;
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.queue.write_buffer(buffer, whole.len() as u64, &last);
        }
        Ok(())
    }

    /// Fills a staging buffer. `fill` writes a range of units of `unit_bytes` bytes each.
    fn stage<'f>(&'f self, bytes: u64, unit_bytes: u64, fill: &'f Fill<'f>) -> Boxed<'f, Staged> {
        Box::pin(async move {
            // A device that keeps up lets no upload wait.
            interrupt::check()?;
            let waiting = self.waiter.expect_callback(None);
            let permit = self.staging.permits.acquire(1).await;
            drop(waiting);
            let free = {
                let mut ready = lock(&self.staging.ready);
                let fits = ready.iter().position(|one| one.size() >= bytes);
                match fits {
                    Some(index) => Some(ready.swap_remove(index)),
                    None => {
                        ready.pop();
                        None
                    }
                }
            };
            let buffer = match free {
                Some(staging) => staging,
                None => self.allocate(&wgpu::BufferDescriptor {
                    label: Some("staging"),
                    size: bytes.max(PIECE_BYTES),
                    usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                    mapped_at_creation: true,
                })?,
            };
            self.fill_staging(&buffer, bytes, unit_bytes, fill)?;
            buffer.unmap();
            Ok(Staged { buffer, bytes, permit })
        })
    }

    /// Submits the copy from a staging buffer.
    fn submit_copy(&self, staged: Staged, buffer: &wgpu::Buffer, offset: u64) {
        let mut encoder =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("upload") });
        encoder.copy_buffer_to_buffer(&staged.buffer, 0, buffer, offset, staged.bytes);
        self.queue.submit([encoder.finish()]);
        self.give_back(staged);
    }

    /// Returns a staging buffer to the ring, which has it again when the device is done with it.
    pub(super) fn give_back(&self, staged: Staged) {
        let Staged { buffer, mut permit, .. } = staged;
        let (ready, permits) = (self.staging.ready.clone(), self.staging.permits.clone());
        permit.disarm();
        let again = buffer.clone();
        buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
            if mapped.is_ok() {
                lock(&ready).push(again);
            }
            permits.release(1);
        });
        self.waiter.stir();
    }

    /// One thread copies about 7 GB/s into staging memory, a fraction of what the bus takes: several do it together.
    fn fill_staging(
        &self,
        staging: &wgpu::Buffer,
        bytes: u64,
        unit_bytes: u64,
        fill: &Fill<'_>,
    ) -> Result<()> {
        let units = bytes / unit_bytes;
        // Views start at multiples of 8 bytes.
        let tasks = if bytes < MANY_BYTES { 1 } else { bytes.div_ceil(BYTES_A_TASK) };
        let share = units.div_ceil(tasks).next_multiple_of(2);
        let mut parts = vec![];
        for start in (0..units).step_by(share as usize) {
            let end = units.min(start + share);
            let view = staging
                .get_mapped_range_mut(start * unit_bytes..end * unit_bytes)
                .map_err(|fault| self.fault_now(&fault))?;
            parts.push((start..end, view));
        }
        // A thread of another pool would take up work of that pool while it waits.
        let copiers =
            COPIERS.as_ref().filter(|_| parts.len() > 1 && parallel::current_thread_index().is_none());
        let copy = |(range, mut view): (Range<u64>, wgpu::BufferViewMut)| fill(range, &mut view.slice(..));
        match copiers {
            Some(copiers) => copiers.scope(|scope| {
                parts.into_iter().for_each(|part| scope.spawn(move |_| copy(part)));
            }),
            None => parts.into_iter().for_each(copy),
        }
        Ok(())
    }
}

/// Encodes rows one after another, each in the layout's element type and without padding.
fn encode_rows(rows: HostVectors<'_>, layout: RowLayout, mut write: impl FnMut(usize, &[u8])) {
    with_view!(rows, view => (0..view.rows()).for_each(|row| encode_row(view.row(row), layout, |bytes| write(row, bytes))));
}

/// Hands the bytes of a row, in the layout's element type and without padding, to `write`.
fn encode_row<T: Element>(row: &[T], layout: RowLayout, write: impl FnOnce(&[u8])) {
    if T::KIND == layout.elements {
        write(bytemuck::cast_slice(row));
    } else {
        with_type!(layout.elements, U => {
            let converted: Vec<U> = row.iter().map(|value| U::nearest(value.widen())).collect();
            write(bytemuck::cast_slice(&converted));
        });
    }
}
