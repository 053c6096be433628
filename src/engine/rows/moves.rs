//! Removes rows from slots, moves them between slots, reads them; all through staging buffers. Takes over changes that are ready.

use std::ops::Range;

use crate::elements::{Element, ElementKind, with_type};
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::rows::alive::Change;
use crate::engine::rows::segments::{GpuRows, Segment, StoredRows, cut};
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, Request, RowLayout, budget_for, usable};
use crate::kernels::move_rows::{self, Direction};
use crate::kernels::widen_rows;
use crate::memory;

/// The most bytes that are staged at a time: enough to keep the device busy.
pub(crate) const STAGED_BYTES: u64 = 64 << 20;

/// Rows with their norms and ids, in the order of a list of slots that the host has too.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    pub(crate) rows: BufferSlice<'a>,
    pub(crate) norms: BufferSlice<'a>,
    pub(crate) ids: BufferSlice<'a>,
    pub(crate) list: BufferSlice<'a>,
    pub(crate) slots: &'a [u32],
}

/// A change of rows that is ready. Until it is applied, searches see nothing of it.
pub(crate) struct GpuChange {
    /// The segments after the change.
    pub(crate) segments: Vec<Segment>,
    pub(crate) quantized: Option<QuantizedRows>,
    /// Whether the centre moved, so that all rows have to be quantised again.
    pub(crate) is_moved: bool,
    pub(crate) alive: Change,
}

impl GpuRows {
    /// Takes over a change.
    ///
    /// # Errors
    /// Faults of this library alone, and then nothing is changed: all memory was taken before.
    pub(crate) fn apply(&mut self, change: GpuChange) -> Result<()> {
        let GpuChange { mut segments, quantized, is_moved, alive } = change;
        let gpu = self.gpu.clone();
        cut(&mut segments, alive.end);
        if let (Some(quantized), true) = (&quantized, is_moved) {
            let mut commands = Commands::new(&gpu, None);
            for segment in &segments {
                quantized.encode(&mut commands, self.layout, segment, [0, segment.len])?;
            }
            commands.submit();
        }
        self.segments = segments;
        self.quantized = quantized;
        alive.apply(&gpu, &mut self.alive);
        Ok(())
    }

    /// Records the copies of staged rows to their slots, which have no row, or of rows to the staging buffers.
    pub(crate) fn encode_move(
        &self,
        commands: &mut Commands<'_>,
        direction: Direction,
        segments: &[Segment],
        staged: &Staged<'_>,
    ) -> Result<()> {
        for (segment, positions) in places(segments, staged.slots) {
            let StoredRows { rows, norms, ids, .. } = segment.stored()?;
            let parts = [
                (self.layout.row_bytes(), rows, staged.rows, self.layout.codes()),
                (8, norms, staged.norms, None),
                (8, ids, staged.ids, None),
            ];
            for (row_bytes, there, here, in_blocks) in parts {
                // `encode_scatter` quantises them into their slots.
                if in_blocks.is_some() && direction == Direction::Scatter {
                    continue;
                }
                let (from, to) = match direction {
                    Direction::Gather => (there.into(), here),
                    Direction::Scatter => (here, there.into()),
                };
                let moving = move_rows::Move {
                    direction,
                    row_bytes,
                    slots: staged.list,
                    positions: positions.clone(),
                    first_slot: segment.first_slot,
                    rows: segment.capacity,
                    in_blocks,
                    from,
                    to,
                };
                move_rows::encode(commands, &moving)?;
            }
        }
        Ok(())
    }

    /// Records the copies of staged rows to their slots, and their quantised copies there.
    pub(crate) fn encode_scatter(
        &self,
        commands: &mut Commands<'_>,
        segments: &[Segment],
        staged: &Staged<'_>,
        quantized: Option<&QuantizedRows>,
    ) -> Result<()> {
        self.encode_move(commands, Direction::Scatter, segments, staged)?;
        let Some(quantized) = quantized else { return Ok(()) };
        for (segment, positions) in places(segments, staged.slots) {
            let (rows, range) = ((staged.rows, staged.norms), [positions.start, positions.end]);
            quantized.encode_staged(commands, self.layout.staged(), rows, staged.list, segment, range)?;
        }
        Ok(())
    }

    pub(crate) async fn prepared_release(&self, freed: &[u32]) -> Result<GpuChange> {
        let alive = Change::new(&self.gpu, self.alive.as_ref(), self.end() as u32, &[], freed).await?;
        let (segments, quantized) = (self.segments.clone(), self.quantized.clone());
        Ok(GpuChange { segments, quantized, is_moved: false, alive })
    }

    pub(crate) async fn prepared_move(&self, from: &[u32], to: &[u32]) -> Result<GpuChange> {
        let gpu = self.gpu.clone();
        let end = to.iter().max().map_or(0, |&slot| u64::from(slot) + 1).max(self.end());
        let (segments, quantized) = self.reached(end)?;
        let row_bytes = self.layout.row_bytes();
        let piece = self.piece(from.len(), &[row_bytes, 8, 8, 4, 4], 1)?;
        let request_of = |purpose, bytes| Request { purpose, bytes: piece as u64 * bytes };
        let scratch = gpu
            .reserve(&[
                request_of("staged rows", row_bytes),
                request_of("staged norms", 8),
                request_of("staged ids", 8),
                request_of("staged slots", 4),
                request_of("slots", 4),
            ])
            .await?;
        for (from, to) in from.chunks(piece).zip(to.chunks(piece)) {
            gpu.upload_bytes(&scratch[3], 0, bytemuck::cast_slice(to)).await?;
            gpu.upload_bytes(&scratch[4], 0, bytemuck::cast_slice(from)).await?;
            let staged = Staged {
                rows: BufferSlice::all(&scratch[0]),
                norms: BufferSlice::all(&scratch[1]),
                ids: BufferSlice::all(&scratch[2]),
                list: BufferSlice::all(&scratch[3]),
                slots: to,
            };
            let gathered = Staged { list: BufferSlice::all(&scratch[4]), slots: from, ..staged };
            let mut commands = Commands::new(&gpu, None);
            self.encode_move(&mut commands, Direction::Gather, &segments, &gathered)?;
            self.encode_scatter(&mut commands, &segments, &staged, quantized.as_ref())?;
            commands.submit();
        }
        let alive = Change::new(&gpu, self.alive.as_ref(), self.end() as u32, to, from).await?;
        Ok(GpuChange { segments, quantized, is_moved: false, alive })
    }

    pub(crate) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        let mut values = memory::with_room(slots.len() * self.dim)?;
        self.gather_own(slots, |row| self.widen(self.layout, row, &mut values)).await?;
        Ok(values)
    }

    /// Reads the rows in these slots and shows the padded bytes of each.
    pub(crate) async fn gather_own(&self, slots: &[u32], each: impl FnMut(&[u8])) -> Result<()> {
        self.gather_bytes(&self.sources()?, self.layout, slots, each).await
    }

    /// The rows of all segments.
    fn sources(&self) -> Result<Vec<Source<'_>>> {
        let mut from = vec![];
        for segment in &self.segments {
            from.push((BufferSlice::all(&segment.stored()?.rows), segment.first_slot, segment.capacity));
        }
        Ok(from)
    }

    /// How copies of rows lie.
    pub(crate) fn copied_layout(&self) -> RowLayout {
        RowLayout::padded(ElementKind::F32, self.dim)
    }

    /// Copies of the rows in these slots in a matrix.
    pub(crate) async fn copies(&self, slots: &[u32]) -> Result<DeviceMatrix> {
        let (gpu, count, layout) = (&self.gpu, slots.len(), self.copied_layout());
        let bytes = count as u64 * layout.row_bytes();
        let (copies, list) =
            (gpu.create_storage("copies of rows", bytes)?, gpu.create_storage("slots", count as u64 * 4)?);
        gpu.upload_bytes(&list, 0, bytemuck::cast_slice(slots)).await?;
        let mut commands = Commands::new(gpu, None);
        self.encode_copies(&mut commands, (BufferSlice::all(&list), count), &copies)?;
        commands.submit();
        DeviceMatrix::of_copies(gpu, copies, (layout, self.layout.elements), [count, self.dim]).await
    }

    /// Records copies of the rows in the slots of a list, one after another, in f32.
    pub(crate) fn encode_copies(
        &self,
        commands: &mut Commands<'_>,
        (slots, count): (BufferSlice<'_>, usize),
        copies: &Buffer,
    ) -> Result<()> {
        let vectors = (self.copied_layout().stride / 4) as u32;
        for (from, first_slot, rows) in self.sources()? {
            let params = widen_rows::Params { vectors, positions: count as u32, first_slot, rows };
            widen_rows::encode(commands, self.layout, &params, [from, slots, BufferSlice::all(copies)])?;
        }
        Ok(())
    }

    pub(crate) fn widen(&self, layout: RowLayout, row: &[u8], values: &mut Vec<f32>) {
        with_type!(layout.elements, T => values.extend(elements::<T>(row, self.dim)));
    }

    /// Reads rows from buffers, each given with the slot of its first row and its number of rows, and shows the bytes of each.
    pub(crate) async fn gather_bytes(
        &self,
        from: &[Source<'_>],
        layout: RowLayout,
        slots: &[u32],
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        let row_bytes = layout.row_bytes();
        let piece = self.piece(slots.len(), &[row_bytes, 4], 1)?;
        let request_of = |purpose, bytes| Request { purpose, bytes: piece as u64 * bytes };
        let scratch = self.gpu.reserve(&[request_of("rows", row_bytes), request_of("slots", 4)]).await?;
        for slots in slots.chunks(piece) {
            self.gpu.upload_bytes(&scratch[1], 0, bytemuck::cast_slice(slots)).await?;
            let mut commands = Commands::new(&self.gpu, None);
            let list = (BufferSlice::all(&scratch[1]), slots.len());
            encode_gather(&mut commands, from, layout, list, &scratch[0])?;
            let read = commands.read(&[(&scratch[0], 0, slots.len() as u64 * row_bytes)]).await?;
            read[0].chunks_exact(row_bytes as usize).for_each(&mut each);
        }
        Ok(())
    }

    /// How many of `rows` rows fit scratch buffers of `row_bytes` bytes a row at a time; a multiple of `multiple` unless
    /// all fit.
    pub(crate) fn piece(&self, rows: usize, row_bytes: &[u64], multiple: usize) -> Result<usize> {
        let budget = self.gpu.options.budget_bytes;
        let bytes: u64 = row_bytes.iter().sum();
        let largest = row_bytes.iter().max().copied().unwrap_or(1);
        let binding = self.gpu.adapter.capabilities.max_binding_bytes;
        let fits = (usable(budget).min(STAGED_BYTES.max(bytes)) / bytes).min(binding / largest) as usize;
        if rows <= fits {
            return Ok(rows.max(1));
        }
        if fits < multiple {
            let purpose = "rows on the way to their slots".to_owned();
            return Err(Error::Budget { purpose, needed: budget_for(bytes * multiple as u64), budget });
        }
        Ok(fits / multiple * multiple)
    }
}

/// Rows in a buffer, with the slot of the first and their number.
type Source<'a> = (BufferSlice<'a>, u32, u32);

/// Records copies of the rows in slots, one after another.
fn encode_gather(
    commands: &mut Commands<'_>,
    from: &[Source<'_>],
    layout: RowLayout,
    (slots, count): (BufferSlice<'_>, usize),
    to: &Buffer,
) -> Result<()> {
    for &(from, first_slot, rows) in from {
        let moving = move_rows::Move {
            direction: Direction::Gather,
            row_bytes: layout.row_bytes(),
            slots,
            positions: 0..count as u32,
            first_slot,
            rows,
            in_blocks: layout.codes(),
            from,
            to: BufferSlice::all(to),
        };
        move_rows::encode(commands, &moving)?;
    }
    Ok(())
}

/// The segments that have some of these slots, each with its range of positions on the list.
pub(crate) fn places<'a>(segments: &'a [Segment], slots: &[u32]) -> Vec<(&'a Segment, Range<u32>)> {
    let mut found: Vec<Option<Range<u32>>> = vec![None; segments.len()];
    for (position, &slot) in (0..).zip(slots) {
        // All but the last are of one size, and the first slot of each is known.
        let number = segments.partition_point(|segment| segment.first_slot <= slot);
        let Some(place) = number.checked_sub(1).and_then(|number| found.get_mut(number)) else { continue };
        let start = place.as_ref().map_or(position, |range| range.start);
        *place = Some(start..position + 1);
    }
    segments.iter().zip(found).filter_map(|(segment, range)| Some((segment, range?))).collect()
}

/// The first `dim` elements of a row's bytes.
fn elements<T: Element>(row: &[u8], dim: usize) -> impl Iterator<Item = f32> {
    let elements = row.chunks_exact(size_of::<T>()).take(dim);
    elements.map(|bytes| bytemuck::pod_read_unaligned::<T>(bytes).widen())
}
