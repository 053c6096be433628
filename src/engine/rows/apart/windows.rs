//! Room on the device for some rows at a time. An index whose 8-bit copy does not fit either is searched window by window: the host
//! narrows rows into one window while the device searches the other.

use std::ops::Range;
use std::sync::Arc;

use futures_intrusive::sync::{SharedSemaphore, SharedSemaphoreReleaser};

use crate::engine::rows::narrowed::{NarrowedRows, TERMS_BYTES};
use crate::engine::rows::segments::{GpuRows, Segment};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Loan};
use crate::host::HostRows;
use crate::kernels::BLOCK_ROWS;
use crate::usage::Memory;
use crate::vectors::HostVectors;

/// Bytes of a window at most. More would not be faster: the bus takes some 10 ms for them, and starting a search much less.
const WINDOW_BYTES: u64 = 512 << 20;

/// Bytes that are narrowed and sent at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// One or two windows, and how rows are narrowed into them.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Rows without segments: their shape, and how they are narrowed.
    pub(crate) of: GpuRows,
    windows: Vec<Segment>,
    /// Rows that the windows were made for. They may hold fewer, if the memory does not suffice.
    reach: u64,
    /// One search at a time has the windows.
    turns: SharedSemaphore,
}

/// Windows that are to replace others, or a copy of all rows.
pub(crate) struct Replaced {
    pub(crate) windows: Windows,
    /// The memory of what they replace.
    pub(crate) loan: Loan,
}

impl Windows {
    /// For rows that are narrowed like these, without memory so far.
    pub(crate) fn new(of: GpuRows) -> Result<Self> {
        let narrowed = of.narrowed.clone().ok_or_else(without)?;
        let of = of.narrowed_from(narrowed.required(), vec![], None);
        Ok(Self { of, windows: vec![], reach: 0, turns: SharedSemaphore::new(true, 1) })
    }

    /// Windows for rows up to slot `end`, when these rows are new.
    pub(super) async fn with(&self, new: Option<HostVectors<'_>>, end: u64) -> Result<Replaced> {
        Error::check_slots(end)?;
        let mut narrowed = self.narrowed()?.clone();
        if let Some(new) = new {
            narrowed.count(&self.of.gpu, new).await?;
        }
        let (mut windows, mut reach, mut loan) = (self.windows.clone(), self.reach, Loan::default());
        if end > reach {
            reach = end.max(reach * 3 / 2);
            let shares = windows.iter().filter_map(|window| window.narrowed.as_ref()?.share.clone());
            loan = Loan::new(shares);
            windows = self.allocated(&narrowed, reach)?;
        }
        let of = self.of.narrowed_from(narrowed, vec![], None);
        Ok(Replaced { windows: Self { of, windows, reach, turns: self.turns.clone() }, loan })
    }

    /// Two windows; one if it holds all rows, or if there is no memory for another.
    fn allocated(&self, narrowed: &NarrowedRows, rows: u64) -> Result<Vec<Segment>> {
        let gpu = &*self.of.gpu;
        let block = u64::from(BLOCK_ROWS);
        let block_bytes = narrowed.plane_bytes(block) + block * TERMS_BYTES;
        let most = (WINDOW_BYTES / block_bytes).min(u64::from(self.of.segment_rows()) / block).max(1);
        let wanted = rows.div_ceil(block);
        let free = gpu.rows_limit.free() / block_bytes;
        // An index that forces it may be small.
        let mut count = if wanted <= most.min(free) { 1 } else { 2 };
        let mut blocks = wanted.min(most).min(free / count);
        if blocks == 0 {
            (count, blocks) = (1, 1);
        }
        loop {
            match (0..count).map(|_| window(narrowed, gpu, blocks)).collect::<Result<Vec<Segment>>>() {
                // The driver may have less memory than the limit allows.
                Err(error) if error.lacks_memory() && blocks > 1 => (count, blocks) = (2, blocks / 2),
                Err(error) if error.lacks_memory() && count > 1 => count = 1,
                made => return made,
            }
        }
    }

    fn narrowed(&self) -> Result<&NarrowedRows> {
        self.of.narrowed.as_ref().ok_or_else(without)
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.of.gpu
    }

    /// How many windows there are.
    pub(crate) fn count(&self) -> usize {
        self.windows.len()
    }

    /// Waits until no other search has the windows, and keeps others from them until the permit is dropped. Who has it waits for nobody
    /// but the device and this search's own threads: the threads of the pool that everybody shares may be in searches that wait here.
    pub(crate) async fn turn(&self) -> SharedSemaphoreReleaser {
        self.turns.acquire(1).await
    }

    /// The slots of each window, up to slot `end`.
    pub(crate) fn ranges(&self, end: u64) -> Vec<Range<usize>> {
        let step = self.windows.first().map_or(1, |window| window.capacity as usize);
        let end = if self.windows.is_empty() { 0 } else { end as usize };
        (0..end).step_by(step).map(|start| start..end.min(start + step)).collect()
    }

    /// The rows of a window that has `rows` of them, to be searched: slots are numbered from the window's first.
    pub(crate) fn rows(&self, place: usize, rows: usize) -> Result<GpuRows> {
        let window = Segment { len: rows as u32, ..self.windows[place].clone() };
        Ok(self.of.narrowed_from(self.narrowed()?.clone(), vec![window], None))
    }

    /// Narrows the rows in these slots into a window.
    pub(crate) async fn fill(&self, place: usize, rows: &HostRows, slots: Range<usize>) -> Result<()> {
        let narrowed = self.narrowed()?;
        let Some(copy) = &self.windows[place].narrowed else { return Err(without()) };
        let (narrower, block) = (narrowed.on_host(), BLOCK_ROWS as usize);
        let blocks = (PIECE_BYTES / narrowed.plane_bytes(block as u64)).max(1) as usize;
        for first in slots.clone().step_by(blocks * block) {
            let piece = first..slots.end.min(first + blocks * block);
            let (integers, terms) = rows.narrowed_blocks(&narrower, piece)?;
            let before = (first - slots.start) as u64;
            let gpu = self.gpu();
            gpu.upload_bytes(&copy.rows, narrowed.plane_bytes(before), &integers).await?;
            gpu.upload_bytes(&copy.terms, before * TERMS_BYTES, bytemuck::cast_slice(&terms)).await?;
            give_way().await;
        }
        Ok(())
    }

    pub(super) fn measure(&self, memory: &mut Memory) {
        let windows = self.windows.clone();
        if let Ok(narrowed) = self.narrowed() {
            self.of.narrowed_from(narrowed.clone(), windows, None).measure(memory);
        }
    }
}

/// A window for some blocks of rows.
fn window(narrowed: &NarrowedRows, gpu: &Gpu, blocks: u64) -> Result<Segment> {
    let rows = blocks * u64::from(BLOCK_ROWS);
    let narrowed = narrowed.within_limit(gpu, rows)?;
    Ok(Segment { stored: None, narrowed, first_slot: 0, len: 0, capacity: rows as u32 })
}

fn without() -> Error {
    Error::internal("a window without a narrowed copy")
}

/// Lets the other futures of a task run.
async fn give_way() {
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
