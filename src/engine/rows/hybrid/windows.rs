//! Room on the device for some rows at a time. An index whose 8-bit copy does not fit either is searched window by window: the host
//! sends quantised rows into one window while the device searches the other. It keeps what it quantised where it has the memory.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use futures_intrusive::sync::{SharedSemaphore, SharedSemaphoreReleaser};

use crate::elements::HostVectors;
use crate::engine::rows::segments::{GpuRows, Segment};
use crate::engine::screens::int8::codes::{QuantizedRows, TERMS_BYTES};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Loan};
use crate::host::{self, HostRows};
use crate::kernels::BLOCK_ROWS;
use crate::lock::lock;
use crate::memory;
use crate::screen::certificate::Terms;
use crate::usage::Memory;

/// Bytes of a window at most. More would not be faster: sending them takes some 25 ms, and starting a search much less.
const WINDOW_BYTES: u64 = 512 << 20;

/// Windows that rows are cut into at least, if that leaves this many blocks in each: the first is filled and the last is searched while
/// nothing else goes on.
const FEWEST: u64 = 8;
const LEAST_BLOCKS: u64 = 512;

/// Bytes that are quantised and sent at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// Pieces that the disk is asked for before they are quantised, where rows are in a file.
const AHEAD: usize = 3;

/// One or two windows, and how rows are quantised into them.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Rows without segments: their shape, and how they are quantised.
    pub(crate) of: GpuRows,
    windows: Vec<Segment>,
    /// Rows that the windows were made for. They may hold fewer, if the memory does not suffice.
    reach: u64,
    /// One search at a time has the windows.
    turns: SharedSemaphore,
    /// What searches quantised of each window's rows, to be sent again. Rows that are added make new windows, which have none.
    kept: Mutex<Vec<Arc<Quantized>>>,
}

/// Quantised rows in the host's memory, as the device has them.
#[derive(Debug, Default)]
struct Quantized {
    /// The first slot of the window.
    first: usize,
    integers: Vec<u8>,
    terms: Vec<Terms>,
}

/// Windows that are to replace others, or a copy of all rows.
pub(crate) struct Replaced {
    pub(crate) windows: Windows,
    /// The memory of what they replace.
    pub(crate) loan: Loan,
}

impl Windows {
    /// For rows that are quantised like these, without memory so far.
    pub(crate) fn new(of: GpuRows) -> Result<Self> {
        let quantized = of.quantized.clone().ok_or_else(without)?;
        let of = of.quantized_from(quantized.required(), vec![], None);
        let (turns, kept) = (SharedSemaphore::new(true, 1), Mutex::default());
        Ok(Self { of, windows: vec![], reach: 0, turns, kept })
    }

    /// Windows for rows up to slot `end`, when these rows are new.
    pub(super) async fn with(&self, new: Option<HostVectors<'_>>, end: u64) -> Result<Replaced> {
        Error::check_slots(end)?;
        let mut quantized = self.quantized()?.clone();
        if let Some(new) = new {
            quantized.count(&self.of.gpu, new).await?;
        }
        let (mut windows, mut reach, mut loan) = (self.windows.clone(), self.reach, Loan::default());
        if end > reach {
            reach = end.max(reach * 3 / 2);
            let shares = windows.iter().filter_map(|window| window.quantized.as_ref()?.share.clone());
            loan = Loan::new(shares);
            windows = self.allocated(&quantized, reach)?;
        }
        let of = self.of.quantized_from(quantized, vec![], None);
        let (turns, kept) = (self.turns.clone(), Mutex::default());
        Ok(Replaced { windows: Self { of, windows, reach, turns, kept }, loan })
    }

    /// Forgets what was quantised: rows have moved.
    pub(super) fn forget(&self) {
        lock(&self.kept).clear();
    }

    /// Two windows; one if it holds all rows, or if there is no memory for another.
    fn allocated(&self, quantized: &QuantizedRows, rows: u64) -> Result<Vec<Segment>> {
        let gpu = &*self.of.gpu;
        let block = u64::from(BLOCK_ROWS);
        let block_bytes = quantized.plane_bytes(block) + block * TERMS_BYTES;
        let most = (WINDOW_BYTES / block_bytes).min(u64::from(self.of.segment_rows) / block).max(1);
        let wanted = rows.div_ceil(block);
        let most = most.min(wanted.div_ceil(FEWEST).max(LEAST_BLOCKS));
        let free = gpu.rows_limit.free() / block_bytes;
        // An index that forces it may be small.
        let mut count = if wanted <= most.min(free) { 1 } else { 2 };
        let mut blocks = wanted.min(most).min(free / count);
        if blocks == 0 {
            (count, blocks) = (1, 1);
        }
        loop {
            match (0..count).map(|_| window(quantized, gpu, blocks)).collect::<Result<Vec<Segment>>>() {
                // The driver may have less memory than the limit allows.
                Err(error) if error.lacks_memory() && blocks > 1 => (count, blocks) = (2, blocks / 2),
                Err(error) if error.lacks_memory() && count > 1 => count = 1,
                made => return made,
            }
        }
    }

    fn quantized(&self) -> Result<&QuantizedRows> {
        self.of.quantized.as_ref().ok_or_else(without)
    }

    pub(crate) fn count(&self) -> usize {
        self.windows.len()
    }

    /// Waits until no other search has the windows, and keeps others from them until the permit is dropped. Who has it waits for nobody
    /// but the device and this search's own threads: the threads of the pool that everybody shares may be in searches that wait here.
    pub(crate) async fn turn(&self) -> SharedSemaphoreReleaser {
        self.turns.acquire(1).await
    }

    /// The slots of each window, up to slot `end`: about as many in each, in whole blocks.
    pub(crate) fn ranges(&self, end: u64) -> Vec<Range<usize>> {
        let Some(most) = self.windows.first().map(|window| u64::from(window.capacity)) else { return vec![] };
        let step =
            end.div_ceil(end.div_ceil(most).max(1)).next_multiple_of(BLOCK_ROWS.into()).max(1) as usize;
        let end = end as usize;
        (0..end).step_by(step).map(|start| start..end.min(start + step)).collect()
    }

    /// The rows of a window that has `rows` of them, to be searched: slots are numbered from the window's first.
    pub(crate) fn rows(&self, place: usize, rows: usize) -> Result<GpuRows> {
        let window = Segment { len: rows as u32, ..self.windows[place].clone() };
        Ok(self.of.quantized_from(self.quantized()?.clone(), vec![window], None))
    }

    /// Sends the quantised rows in these slots, which [`ranges`](Self::ranges) has, to a window.
    pub(crate) async fn fill(&self, place: usize, rows: &HostRows, slots: Range<usize>) -> Result<()> {
        let quantized = self.quantized()?;
        let Some(copy) = &self.windows[place].quantized else { return Err(without()) };
        let (gpu, quantizer, block) = (&self.of.gpu, quantized.on_host(), BLOCK_ROWS as usize);
        // Rows that are divided otherwise by now, or are more, are quantised again.
        let is_of = |kept: &&Arc<Quantized>| kept.first == slots.start && kept.terms.len() >= slots.len();
        let kept = lock(&self.kept).iter().find(is_of).cloned();
        let is_new = kept.is_none();
        let mut room =
            if is_new { room(quantized, slots.start, slots.len().next_multiple_of(block)) } else { None };
        let blocks = (PIECE_BYTES / quantized.plane_bytes(block as u64)).max(1) as usize;
        let step = blocks * block;
        for first in slots.clone().step_by(step) {
            let piece = first..slots.end.min(first + step);
            if is_new {
                // The disk works while others are quantised, also for the window behind this one.
                let soon = if first == slots.start { first } else { first + AHEAD * step };
                rows.values.announce(soon.min(rows.end())..rows.end().min(first + (AHEAD + 1) * step));
            }
            let before = first - slots.start;
            let (start, rows_in_blocks) = (before as u64, piece.len().next_multiple_of(block));
            let place = quantized.plane_bytes(start);
            let (made, integers, terms);
            (integers, terms) = match &kept {
                Some(kept) => {
                    let end = place + quantized.plane_bytes(rows_in_blocks as u64);
                    let range = place as usize..end as usize;
                    (&kept.integers[range], &kept.terms[before..before + rows_in_blocks])
                }
                None => {
                    made = rows.quantized_blocks(&quantizer, piece)?;
                    (&made.0[..], &made.1[..])
                }
            };
            gpu.upload_bytes(&copy.rows, place, integers).await?;
            gpu.upload_bytes(&copy.terms, start * TERMS_BYTES, bytemuck::cast_slice(terms)).await?;
            if let Some(room) = &mut room {
                room.integers.extend_from_slice(integers);
                room.terms.extend_from_slice(terms);
            }
            give_way().await;
        }
        if let Some(made) = room {
            let mut kept = lock(&self.kept);
            // After a removal there may be others, of rows that are divided otherwise by now.
            let (start, end) = (made.first, made.first + made.terms.len());
            let is_elsewhere = |kept: &Quantized| kept.first + kept.terms.len() <= start || kept.first >= end;
            kept.retain(|kept| is_elsewhere(kept) && kept.first < rows.end());
            memory::reserve_more(&mut kept, 1)?;
            kept.push(Arc::new(made));
        }
        Ok(())
    }

    pub(super) fn measure(&self, memory: &mut Memory) {
        let windows = self.windows.clone();
        if let Ok(quantized) = self.quantized() {
            self.of.quantized_from(quantized.clone(), windows, None).measure(memory);
        }
        for kept in lock(&self.kept).iter() {
            memory.add_vec("integers", &kept.integers);
            memory.add_vec("integers", &kept.terms);
        }
    }
}

/// Room for the quantised copy of a window's rows, where the host has at least twice as much.
fn room(quantized: &QuantizedRows, first: usize, rows: usize) -> Option<Quantized> {
    let bytes = quantized.plane_bytes(rows as u64);
    let needed = bytes + rows as u64 * TERMS_BYTES;
    if host::memory_usage().is_some_and(|usage| usage.free_bytes / 2 < needed) {
        return None;
    }
    let integers = memory::with_room(bytes as usize).ok()?;
    Some(Quantized { first, integers, terms: memory::with_room(rows).ok()? })
}

fn window(quantized: &QuantizedRows, gpu: &Gpu, blocks: u64) -> Result<Segment> {
    let rows = blocks * u64::from(BLOCK_ROWS);
    let quantized = quantized.within_limit(gpu, rows)?;
    Ok(Segment { stored: None, quantized, first_slot: 0, len: 0, capacity: rows as u32 })
}

fn without() -> Error {
    Error::internal("a window without a quantised copy")
}

/// Lets the other futures of a task run.
pub(crate) async fn give_way() {
    let mut is_second = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
