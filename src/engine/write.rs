//! Rows to slots and back: appended, put into slots that are free, moved, taken out, read.
//!
//! Every change is made ready on copies of the lists that say what there is, and taken over at the end by what cannot fail. So
//! after an error, or when its future is dropped, an index answers as before. Rows that are on their way lie in slots that
//! nobody reads.

use std::ops::Range;

use super::alive::Change;
use super::device::DeviceMatrix;
use super::narrowed::NarrowedRows;
use super::plan::{budget_for, usable};
use super::rows::{GpuRows, Segment, cut};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Request, RowLayout};
use crate::kernels::move_rows::{self, Way};
use crate::kernels::norms;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Where new rows are: on the host, or on the index's device as f32.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowSource<'a, T> {
    Host(MatrixView<'a, T>),
    Device(&'a DeviceMatrix),
}

impl<T: Element> RowSource<'_, T> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Host(view) => view.rows(),
            Self::Device(matrix) => matrix.rows(),
        }
    }
}

/// Where new rows go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placing<'a> {
    /// Slots that have no row, one a row, each once. They may lie behind the end.
    pub(crate) slots: &'a [u32],
    /// One a row.
    pub(crate) ids: &'a [u64],
    /// Slots that lose their rows at the same time.
    pub(crate) freed: &'a [u32],
}

/// Bytes that are staged at a time at most: enough that the device is busy.
const STAGED_BYTES: u64 = 64 << 20;

/// Rows of a device matrix are taken so many at a time, because bindings start at multiples of 256 bytes.
const ALIGNED_ROWS: usize = 16;

/// Rows that are about to enter, with what is known of them.
struct Entering<'a> {
    /// As they will be.
    segments: Vec<Segment>,
    narrowed: Option<NarrowedRows>,
    /// Whether all rows are narrowed anew at the end.
    is_moved: bool,
    placing: Placing<'a>,
    refused: wgpu::Buffer,
}

impl GpuRows {
    /// Puts rows into slots; all of them or, after an error, none.
    pub(super) async fn put<T: Element>(
        &mut self,
        source: RowSource<'_, T>,
        placing: &Placing<'_>,
        progress: impl FnMut(usize),
    ) -> Result<()> {
        debug_assert!(source.rows() == placing.slots.len() && source.rows() == placing.ids.len());
        if let RowSource::Device(matrix) = source {
            matrix.check_device("rows", &self.gpu)?;
        }
        let end = placing.slots.iter().max().map_or(0, |&slot| u64::from(slot) + 1).max(self.end());
        let gpu = self.gpu.clone();
        let refused = gpu.create_storage("refused", 8)?;
        gpu.upload_bytes(&refused, 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(&gpu, None);
        let mut segments = self.segments.clone();
        self.reach(&mut segments, end, &mut commands)?;
        // Copies of a grown segment have to be on their way before rows are written behind them.
        commands.submit();
        let mut narrowed = self.narrowed.clone();
        if segments.iter().any(|segment| segment.narrowed.is_none()) {
            narrowed = None;
            segments.iter_mut().for_each(|segment| segment.narrowed = None);
        }
        let is_moved = match &mut narrowed {
            Some(narrowed) => self.count(narrowed, source).await?,
            None => false,
        };
        let mut entering = Entering { segments, narrowed, is_moved, placing: *placing, refused };
        let is_appended = placing.slots.iter().zip(self.end() as u32..).all(|(&slot, next)| slot == next);
        let commands = match source {
            RowSource::Host(view) if is_appended => self.append(&mut entering, view, progress).await?,
            _ => self.scatter(&entering, source, progress).await?,
        };
        let parts = commands.read(&[(&entering.refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        let Placing { slots, freed, .. } = *placing;
        let change = Change::new(&gpu, self.alive.as_ref(), self.end() as u32, slots, freed).await?;
        let Entering { mut segments, narrowed, .. } = entering;
        cut(&mut segments, change.end);
        if let (Some(narrowed), true) = (&narrowed, is_moved) {
            let mut commands = Commands::new(&gpu, None);
            for segment in &segments {
                narrowed.encode(&mut commands, self.layout, segment, [0, segment.len])?;
            }
            commands.submit();
        }
        self.segments = segments;
        self.narrowed = narrowed;
        change.apply(&gpu, &mut self.alive);
        Ok(())
    }

    /// Counts new rows towards the centre: of those on the device a sample is read.
    async fn count<T: Element>(&self, narrowed: &mut NarrowedRows, source: RowSource<'_, T>) -> Result<bool> {
        let matrix = match source {
            RowSource::Host(view) => return narrowed.count(&self.gpu, view).await,
            RowSource::Device(matrix) => matrix,
        };
        let layout = RowLayout { elements: ElementKind::F32, stride: matrix.stride() };
        let most = (STAGED_BYTES / layout.row_bytes()).max(1) as usize;
        let wanted = narrowed.wanted(matrix.rows()).min(most) as u64;
        if wanted == 0 {
            return Ok(false);
        }
        let rows = matrix.rows() as u64;
        let numbers: Vec<u32> = (0..wanted).map(|number| (number * rows / wanted) as u32).collect();
        let from = [(BufferSlice::all(&matrix.buffer), 0, rows as u32)];
        let sample = self.gather(&from, layout, &numbers).await?;
        narrowed.count(&self.gpu, MatrixView::new(&sample, self.dim)?).await
    }

    /// Rows behind the end, straight from the host.
    async fn append<T: Element>(
        &self,
        entering: &mut Entering<'_>,
        rows: MatrixView<'_, T>,
        mut progress: impl FnMut(usize),
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
            gpu.upload_rows(&segment.rows, offset, self.layout, piece, |sent| progress(before + sent))
                .await?;
            let piece_ids = bytemuck::cast_slice(&ids[done..done + count]);
            gpu.upload_bytes(&segment.ids, u64::from(from) * 8, piece_ids).await?;
            norms::encode(
                &mut commands,
                &norms::Norms {
                    rows: segment.rows_slice(),
                    elements: self.layout.elements,
                    vectors: self.vectors(),
                    range,
                    first_number: done as u32,
                    norms: BufferSlice::all(&segment.norms),
                    refused: BufferSlice::all(&entering.refused),
                },
            )?;
            if let (Some(narrowed), false) = (&entering.narrowed, entering.is_moved) {
                narrowed.encode(&mut commands, self.layout, segment, range)?;
            }
            done += count;
        }
        Ok(commands)
    }

    /// Rows to any slots: staged in pieces, with their norms, and scattered from there.
    async fn scatter<T: Element>(
        &self,
        entering: &Entering<'_>,
        source: RowSource<'_, T>,
        mut progress: impl FnMut(usize),
    ) -> Result<Commands<'_>> {
        let gpu = &*self.gpu;
        let Placing { slots, ids, .. } = entering.placing;
        let row_bytes = self.layout.row_bytes();
        let (staged_bytes, multiple) = match source {
            RowSource::Host(_) => (row_bytes, 1),
            RowSource::Device(_) => (0, ALIGNED_ROWS),
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
                RowSource::Host(view) => {
                    let sent = |sent| progress(done + sent);
                    gpu.upload_rows(&scratch[0], 0, self.layout, view.slice(range.clone()), sent).await?;
                    BufferSlice::all(&scratch[0])
                }
                RowSource::Device(matrix) => {
                    progress(range.end);
                    let offset = done as u64 * row_bytes;
                    BufferSlice::range(&matrix.buffer, offset, u64::from(count) * row_bytes)
                }
            };
            gpu.upload_bytes(&scratch[2], 0, bytemuck::cast_slice(&ids[range.clone()])).await?;
            gpu.upload_bytes(&scratch[3], 0, bytemuck::cast_slice(&slots[range.clone()])).await?;
            let mut commands = Commands::new(gpu, None);
            norms::encode(
                &mut commands,
                &norms::Norms {
                    rows,
                    elements: self.layout.elements,
                    vectors: self.vectors(),
                    range: [0, count],
                    first_number: done as u32,
                    norms: BufferSlice::all(&scratch[1]),
                    refused: BufferSlice::all(&entering.refused),
                },
            )?;
            let staged = Staged {
                rows,
                norms: BufferSlice::all(&scratch[1]),
                ids: BufferSlice::all(&scratch[2]),
                list: BufferSlice::all(&scratch[3]),
                slots: &slots[range.clone()],
            };
            let narrowed = entering.narrowed.as_ref().filter(|_| !entering.is_moved);
            self.encode_scatter(&mut commands, &entering.segments, &staged, narrowed)?;
            commands.submit();
            done = range.end;
        }
        Ok(Commands::new(gpu, None))
    }

    /// Staged rows to their slots, which have no row.
    fn encode_scatter(
        &self,
        commands: &mut Commands<'_>,
        segments: &[Segment],
        staged: &Staged<'_>,
        narrowed: Option<&NarrowedRows>,
    ) -> Result<()> {
        for (segment, positions) in places(segments, staged.slots) {
            let mut scatter = |row_bytes, from, to| {
                let moving =
                    segment.moving(Way::Scatter, row_bytes, staged.list, positions.clone(), from, to);
                move_rows::encode(commands, &moving)
            };
            scatter(self.layout.row_bytes(), staged.rows, segment.rows_slice())?;
            scatter(8, staged.norms, BufferSlice::all(&segment.norms))?;
            scatter(8, staged.ids, BufferSlice::all(&segment.ids))?;
            if let Some(narrowed) = narrowed {
                let range = [positions.start, positions.end];
                let rows = (staged.rows, staged.norms);
                narrowed.encode_staged(commands, self.layout, rows, staged.list, segment, range)?;
            }
        }
        Ok(())
    }

    /// Takes the rows out of slots that have one.
    pub(super) async fn release(&mut self, freed: &[u32]) -> Result<()> {
        let change = Change::new(&self.gpu, self.alive.as_ref(), self.end() as u32, &[], freed).await?;
        cut(&mut self.segments, change.end);
        change.apply(&self.gpu, &mut self.alive);
        Ok(())
    }

    /// Moves rows, with their ids, from slots to as many that have none.
    pub(super) async fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        let gpu = self.gpu.clone();
        let end = to.iter().max().map_or(0, |&slot| u64::from(slot) + 1).max(self.end());
        let mut segments = self.segments.clone();
        let mut commands = Commands::new(&gpu, None);
        self.reach(&mut segments, end, &mut commands)?;
        commands.submit();
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
            let list = BufferSlice::all(&scratch[4]);
            let mut commands = Commands::new(&gpu, None);
            for (segment, positions) in places(&segments, from) {
                let mut gather = |row_bytes, from, to| {
                    let moving = segment.moving(Way::Gather, row_bytes, list, positions.clone(), from, to);
                    move_rows::encode(&mut commands, &moving)
                };
                gather(row_bytes, segment.rows_slice(), staged.rows)?;
                gather(8, BufferSlice::all(&segment.norms), staged.norms)?;
                gather(8, BufferSlice::all(&segment.ids), staged.ids)?;
            }
            let narrowed = self.narrowed.as_ref();
            self.encode_scatter(&mut commands, &segments, &staged, narrowed)?;
            commands.submit();
        }
        let change = Change::new(&gpu, self.alive.as_ref(), self.end() as u32, to, from).await?;
        cut(&mut segments, change.end);
        self.segments = segments;
        change.apply(&gpu, &mut self.alive);
        Ok(())
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(super) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        let segments = self.segments.iter();
        let from: Vec<_> =
            segments.map(|segment| (segment.rows_slice(), segment.first_slot, segment.capacity)).collect();
        self.gather(&from, self.layout, slots).await
    }

    /// Rows of buffers, each with the slot of its first row and how many it holds, read to the host.
    async fn gather(
        &self,
        from: &[(BufferSlice<'_>, u32, u32)],
        layout: RowLayout,
        slots: &[u32],
    ) -> Result<Vec<f32>> {
        let row_bytes = layout.row_bytes();
        let mut values = Vec::with_capacity(slots.len() * self.dim);
        let piece = self.piece(slots.len(), &[row_bytes, 4], 1)?;
        let request_of = |purpose, bytes| Request { purpose, bytes: piece as u64 * bytes };
        let scratch = self.gpu.reserve(&[request_of("rows", row_bytes), request_of("slots", 4)]).await?;
        for slots in slots.chunks(piece) {
            self.gpu.upload_bytes(&scratch[1], 0, bytemuck::cast_slice(slots)).await?;
            let mut commands = Commands::new(&self.gpu, None);
            for &(from, first_slot, rows) in from {
                let moving = move_rows::Move {
                    way: Way::Gather,
                    row_bytes,
                    slots: BufferSlice::all(&scratch[1]),
                    positions: 0..slots.len() as u32,
                    first_slot,
                    rows,
                    from,
                    to: BufferSlice::all(&scratch[0]),
                };
                move_rows::encode(&mut commands, &moving)?;
            }
            let read = commands.read(&[(&scratch[0], 0, slots.len() as u64 * row_bytes)]).await?;
            for row in read[0].chunks_exact(row_bytes as usize) {
                match layout.elements {
                    ElementKind::F32 => values.extend(elements::<f32>(row, self.dim)),
                    ElementKind::F16 => values.extend(elements::<half::f16>(row, self.dim)),
                }
            }
        }
        Ok(values)
    }

    /// How many of so many rows go through scratch buffers at a time that take so many bytes a row each; a multiple of
    /// `multiple` unless it is all of them.
    fn piece(&self, rows: usize, row_bytes: &[u64], multiple: usize) -> Result<usize> {
        let budget = self.gpu.options.budget_bytes;
        let bytes: u64 = row_bytes.iter().sum();
        let largest = row_bytes.iter().max().copied().unwrap_or(1);
        let binding = self.gpu.adapter.capabilities.max_binding_bytes;
        let fits = (usable(budget).min(STAGED_BYTES.max(bytes)) / bytes).min(binding / largest) as usize;
        if rows <= fits {
            return Ok(rows.max(1));
        }
        if fits < multiple {
            let purpose = "rows on their way to their slots".to_owned();
            return Err(Error::Budget { purpose, needed: budget_for(bytes * multiple as u64), budget });
        }
        Ok(fits / multiple * multiple)
    }
}

/// Rows with their norms and ids in the order of a list of slots, which is on the host too.
struct Staged<'a> {
    rows: BufferSlice<'a>,
    norms: BufferSlice<'a>,
    ids: BufferSlice<'a>,
    list: BufferSlice<'a>,
    slots: &'a [u32],
}

impl Segment {
    fn moving<'a>(
        &self,
        way: Way,
        row_bytes: u64,
        slots: BufferSlice<'a>,
        positions: Range<u32>,
        from: BufferSlice<'a>,
        to: BufferSlice<'a>,
    ) -> move_rows::Move<'a> {
        let (first_slot, rows) = (self.first_slot, self.capacity);
        move_rows::Move { way, row_bytes, slots, positions, first_slot, rows, from, to }
    }
}

/// The segments that have some of these slots, and from which position of the list to which they are.
fn places<'a>(segments: &'a [Segment], slots: &[u32]) -> Vec<(&'a Segment, Range<u32>)> {
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
