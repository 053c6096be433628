//! Changes of rows that the host keeps. Their quantised copy is prepared on the device first, in slots that no search reads; then the
//! host takes the rows over, by steps that cannot fail.

use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::pass::{BufferVectors, encode_norms, reset_refused};
use crate::engine::rows::alive::Change;
use crate::engine::rows::edit::Edit;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::rows::hybrid::windows::{Replaced, Windows};
use crate::engine::rows::moves::places;
use crate::engine::rows::segments::{GpuRows, Segment, cut};
use crate::engine::rows::write::Placing;
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::error::{Error, Result};
use crate::future::RowProgress;
use crate::gpu::{Buffer, BufferSlice, Commands, Loan, Request};
use crate::host::{HostChange, HostRows};
use crate::kernels::norms;

/// A change that is prepared on the device.
struct Prepared {
    segments: Vec<Segment>,
    quantized: QuantizedRows,
    change: Change,
    /// The rows that were there before, if the centre has moved.
    again: Vec<StagedRows>,
}

/// Rows that are quantised piece by piece on a device that had none.
pub(crate) struct Quantizing {
    segments: Vec<Segment>,
    quantized: QuantizedRows,
    refused: Buffer,
}

/// Rows on the device that are to be quantised again, with their norms and slots.
struct StagedRows {
    rows: Buffer,
    norms: Buffer,
    list: Buffer,
    slots: Vec<u32>,
}

/// A change that is ready on the device. The host takes its rows over when the change is applied, at once: a future that is dropped
/// before cannot leave that half done.
pub(crate) struct HybridChange<'a> {
    on_device: Option<Prepared>,
    /// Windows that take the place of others, or of the copy of all rows.
    windows: Option<Box<Replaced>>,
    on_host: HostChange,
    /// New rows, or those that move: the host takes them over.
    edit: Arc<Edit<'a>>,
}

impl HybridRows {
    /// Makes a change ready: quantises new rows, or those that move, into slots that no search reads yet.
    pub(crate) async fn prepared<'a>(
        &mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'_>,
    ) -> Result<HybridChange<'a>> {
        let rows = edit.rows_on_host()?;
        if let (None, Some(rows)) = (&self.integers, rows) {
            // Nothing is sent before a search.
            progress(rows.rows());
        }
        let on_host = self.rows.prepared(rows, &edit.filled, &edit.freed)?;
        let on_device = match (&self.integers, rows) {
            (None, _) => None,
            (Some(integers), Some(rows)) => {
                Some(integers.prepared(&self.rows, rows, &edit.placing(), progress).await?)
            }
            (Some(integers), None) => Some(integers.prepared_again(&self.rows, &edit).await?),
        };
        let windows = match (&self.windows, rows) {
            (Some(before), Some(_)) => {
                let end = end_of(&edit.filled).max(self.rows.end() as u64);
                Some(Box::new(before.with(rows, end).await?))
            }
            _ => None,
        };
        Ok(HybridChange { on_device, windows, on_host, edit })
    }

    /// Like [`prepared`](Self::prepared), where the copy of all rows becomes windows.
    pub(crate) async fn prepared_streaming<'a>(&mut self, edit: Arc<Edit<'a>>) -> Result<HybridChange<'a>> {
        let without = || Error::internal("rows on the host have no copy that could be sent in windows");
        let integers = self.integers.as_ref().ok_or_else(without)?;
        // The windows take the place of the copy, and may take its memory.
        let copies = integers.segments.iter().filter_map(|segment| segment.quantized.as_ref()?.share.clone());
        let loan = Loan::new(copies);
        let quantized = integers.quantized.clone().ok_or_else(without)?;
        let windows = Windows::new(integers.quantized_from(quantized, vec![], None))?;
        let rows = edit.rows_on_host()?;
        let on_host = self.rows.prepared(rows, &edit.filled, &edit.freed)?;
        let end = (self.rows.end() as u64).max(end_of(&edit.filled));
        let windows = windows.with(rows, end).await?.windows;
        let windows = Some(Box::new(Replaced { windows, loan }));
        Ok(HybridChange { on_device: None, windows, on_host, edit })
    }

    /// Starts to quantise all rows on the device, which has none so far. `sample` are some of them. None where the host searches alone, or
    /// sends rows in windows.
    pub(crate) async fn quantizing(&mut self, sample: HostVectors<'_>) -> Result<Option<Quantizing>> {
        if let Some(windows) = &mut self.windows {
            *windows = windows.with(Some(sample), self.rows.end() as u64).await?.windows;
        }
        let Some(integers) = &self.integers else { return Ok(None) };
        let gpu = &integers.gpu;
        let refused = gpu.create_storage("refused", 8)?;
        reset_refused(gpu, &refused).await?;
        let (segments, mut quantized) = integers.quantized_up_to(self.rows.end() as u64)?;
        quantized.count(gpu, sample).await?;
        Ok(Some(Quantizing { segments, quantized, refused }))
    }

    /// Quantises copies of the rows in these slots.
    pub(crate) async fn quantize(
        &self,
        quantizing: &Quantizing,
        piece: (HostVectors<'_>, &[u32]),
    ) -> Result<()> {
        let Some(integers) = &self.integers else { return Ok(()) };
        let Quantizing { segments, quantized, refused } = quantizing;
        integers.quantize((segments, quantized), piece, refused, &mut |_| ()).await
    }

    /// Searches what was quantised: all rows.
    pub(crate) async fn quantized(&mut self, quantizing: Quantizing) -> Result<()> {
        let Some(integers) = &mut self.integers else { return Ok(()) };
        let Quantizing { segments, quantized, refused } = quantizing;
        let gpu = integers.gpu.clone();
        let parts = Commands::new(&gpu, None).read(&[(&refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        let filled = Bits::slots(self.rows.alive(), self.rows.end())?;
        let change = Change::new(&gpu, None, 0, &filled, &[]).await?;
        integers.take_over(Prepared { segments, quantized, change, again: vec![] });
        Ok(())
    }

    /// Takes over a change.
    ///
    /// # Errors
    /// Faults of this library alone: all memory was taken before.
    pub(crate) fn apply(&mut self, change: HybridChange<'_>) -> Result<()> {
        let HybridChange { on_device, windows, mut on_host, edit } = change;
        let gpu = self.integers.as_ref().map(|integers| integers.gpu.clone());
        let mut commands = gpu.as_deref().map(|gpu| Commands::new(gpu, None));
        if let (Some(integers), Some(prepared), Some(commands)) = (&self.integers, &on_device, &mut commands)
        {
            // Around the new centre.
            for StagedRows { rows, norms, list, slots } in &prepared.again {
                let staged = [rows, norms, list].map(BufferSlice::all);
                let Prepared { segments, quantized, .. } = prepared;
                integers.encode_quantize(commands, (segments, quantized), staged, slots)?;
            }
        }
        // Nothing interrupts it, because the device has the rows already.
        if let Some(rows) = edit.rows_on_host()? {
            let places = (&*edit.filled, &*edit.ids);
            self.rows.put(rows, places, &mut on_host, (&mut |_| (), || Ok(())))?;
        } else if edit.moves() {
            self.rows.relocate(&edit.freed, &edit.filled, &on_host, || Ok(()))?;
            self.windows.iter().for_each(Windows::forget);
        }
        self.rows.apply(on_host);
        if let (Some(integers), Some(prepared)) = (&mut self.integers, on_device) {
            commands.into_iter().for_each(Commands::submit);
            integers.take_over(prepared);
        }
        if let Some(replaced) = windows {
            let Replaced { windows, loan } = *replaced;
            (self.integers, self.windows) = (None, Some(windows));
            loan.settle();
        }
        Ok(())
    }

    pub(crate) fn shrink(&mut self) -> Result<()> {
        self.rows.shrink();
        self.integers.as_mut().map_or(Ok(()), GpuRows::shrink)
    }
}

/// Rows that tell where the centre is.
const SAMPLE: usize = 4096;

/// Chooses a sample of this many rows, by their numbers.
pub(crate) fn spread_out(rows: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
    let (all, count) = (rows as u128, rows.min(SAMPLE));
    (0..count).map(move |number| (number as u128 * all / count as u128) as usize)
}

fn end_of(slots: &[u32]) -> u64 {
    slots.iter().max().map_or(0, |&slot| u64::from(slot) + 1)
}

impl GpuRows {
    fn end_with(&self, slots: &[u32]) -> u64 {
        end_of(slots).max(self.end())
    }

    /// Segments that reach up to slot `end`, and how their rows are quantised.
    fn quantized_up_to(&self, end: u64) -> Result<(Vec<Segment>, QuantizedRows)> {
        let (segments, quantized) = self.reached(end)?;
        let without = || Error::internal("rows on the host have no quantised copy on the device");
        Ok((segments, quantized.ok_or_else(without)?))
    }

    /// Bytes of a row on its way: its elements, its norms and its slot.
    fn staged_bytes(&self) -> [u64; 3] {
        [self.layout.row_bytes(), 8, 4]
    }

    /// Quantises new rows into their slots. `before` are the rows so far.
    async fn prepared(
        &self,
        before: &HostRows,
        source: HostVectors<'_>,
        placing: &Placing<'_>,
        progress: RowProgress<'_>,
    ) -> Result<Prepared> {
        let gpu = &self.gpu;
        let &Placing { slots, freed, .. } = placing;
        let refused = gpu.create_storage("refused", 8)?;
        reset_refused(gpu, &refused).await?;
        let (mut segments, mut quantized) = self.quantized_up_to(self.end_with(slots))?;
        let again = match quantized.count(gpu, source).await? {
            true => self.staged_again(before, &refused).await?,
            false => vec![],
        };
        self.quantize((&segments, &quantized), (source, slots), &refused, progress).await?;
        let parts = Commands::new(gpu, None).read(&[(&refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        let change = Change::new(gpu, self.alive.as_ref(), self.end() as u32, slots, freed).await?;
        cut(&mut segments, change.end);
        Ok(Prepared { segments, quantized, change, again })
    }

    /// Quantises rows that move again, in slots that have none; they leave their own when the change is applied.
    async fn prepared_again(&self, before: &HostRows, edit: &Edit<'_>) -> Result<Prepared> {
        let gpu = self.gpu.clone();
        let (segments, quantized) = self.quantized_up_to(self.end_with(&edit.filled))?;
        if edit.moves() {
            let refused = gpu.create_storage("refused", 8)?;
            let piece = self.piece(edit.freed.len(), &self.staged_bytes(), 1)?;
            for (from, to) in edit.freed.chunks(piece).zip(edit.filled.chunks(piece)) {
                let rows = before.values.gathered(from)?;
                let piece = ((&rows).into(), to);
                self.quantize((&segments, &quantized), piece, &refused, &mut |_| ()).await?;
            }
        }
        let end = self.end() as u32;
        let change = Change::new(&gpu, self.alive.as_ref(), end, &edit.filled, &edit.freed).await?;
        Ok(Prepared { segments, quantized, change, again: vec![] })
    }

    /// Quantises rows of the host into slots, piece after piece, and finds values that are not finite.
    async fn quantize(
        &self,
        (segments, quantized): (&[Segment], &QuantizedRows),
        (rows, slots): (HostVectors<'_>, &[u32]),
        refused: &Buffer,
        progress: RowProgress<'_>,
    ) -> Result<()> {
        let gpu = &*self.gpu;
        let piece = self.piece(slots.len(), &self.staged_bytes(), 1)?;
        let [rows_bytes, norms_bytes, list_bytes] = self.staged_bytes().map(|bytes| piece as u64 * bytes);
        let requests = [
            Request { purpose: "staged rows", bytes: rows_bytes },
            Request { purpose: "staged norms", bytes: norms_bytes },
            Request { purpose: "staged slots", bytes: list_bytes },
        ];
        let scratch = self.gpu.reserve(&requests).await?;
        let mut done = 0;
        for slots in slots.chunks(piece) {
            let part = rows.slice(done..done + slots.len());
            gpu.upload_rows(&scratch[0], 0, self.layout, part, &mut |sent| progress(done + sent)).await?;
            gpu.upload_bytes(&scratch[2], 0, bytemuck::cast_slice(slots)).await?;
            let mut commands = Commands::new(gpu, None);
            let vectors = BufferVectors { values: (&scratch[0]).into(), layout: self.layout };
            let into = ((&scratch[1]).into(), refused.into());
            encode_norms(&mut commands, vectors, ([0, slots.len() as u32], done as u32), into)?;
            let staged = [0, 1, 2].map(|place| BufferSlice::all(&scratch[place]));
            self.encode_quantize(&mut commands, (segments, quantized), staged, slots)?;
            commands.submit_piece().await?;
            done += slots.len();
        }
        Ok(())
    }

    /// Brings the rows so far to the device. The centre moves only while they are few, so this takes little memory: not that of the
    /// scratch budget, because all of them are held at the same time.
    async fn staged_again(&self, before: &HostRows, refused: &Buffer) -> Result<Vec<StagedRows>> {
        let gpu = &*self.gpu;
        let slots = Bits::slots(before.alive(), before.end())?;
        let mut staged = vec![];
        let piece = self.piece(slots.len(), &self.staged_bytes(), 1)?;
        for slots in slots.chunks(piece) {
            let [rows, norms, list] = self.staged_bytes().map(|bytes| slots.len() as u64 * bytes);
            let rows = gpu.create_storage("staged rows", rows)?;
            let norms = gpu.create_storage("staged norms", norms)?;
            let list = gpu.create_storage("staged slots", list)?;
            let values = before.values.gathered(slots)?;
            gpu.upload_rows(&rows, 0, self.layout, (&values).into(), &mut |_| ()).await?;
            gpu.upload_bytes(&list, 0, bytemuck::cast_slice(slots)).await?;
            let mut commands = Commands::new(gpu, None);
            let vectors = BufferVectors { values: (&rows).into(), layout: self.layout };
            let into = ((&norms).into(), refused.into());
            encode_norms(&mut commands, vectors, ([0, slots.len() as u32], 0), into)?;
            commands.submit_piece().await?;
            staged.push(StagedRows { rows, norms, list, slots: slots.to_vec() });
        }
        Ok(staged)
    }

    /// Records that staged rows, with their norms and the list of their slots, are quantised.
    fn encode_quantize(
        &self,
        commands: &mut Commands<'_>,
        (segments, quantized): (&[Segment], &QuantizedRows),
        [rows, norms, list]: [BufferSlice<'_>; 3],
        slots: &[u32],
    ) -> Result<()> {
        for (segment, range) in places(segments, slots) {
            let range = [range.start, range.end];
            quantized.encode_staged(commands, self.layout, (rows, norms), list, segment, range)?;
        }
        Ok(())
    }

    fn take_over(&mut self, prepared: Prepared) {
        let Prepared { mut segments, quantized, change, .. } = prepared;
        cut(&mut segments, change.end);
        self.segments = segments;
        self.quantized = Some(quantized);
        change.apply(&self.gpu, &mut self.alive);
    }
}
