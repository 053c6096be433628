//! Rows of a mapped file, read through once: their values are checked, and narrowed.

use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::vectors::Vectors;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::apart::ApartRows;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::outgrown;
use crate::engine::rows::shape::RowShape;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::host::{Host, HostRows, MappedRows};
use crate::interrupt;
use crate::matrix::Matrix;
use crate::memory;

/// Bytes of rows that are read at a time.
const PIECE_BYTES: usize = 16 << 20;

/// Rows that tell where the centre is.
const SAMPLE: usize = 4096;

/// Rows of a file, and where they go.
pub(crate) struct FileRows {
    pub(crate) rows: MappedRows,
    /// The id of each row.
    pub(crate) ids: Vec<u64>,
    /// The slot of each row.
    pub(crate) slots: Vec<u32>,
}

/// Takes the bytes of the rows, in the order of the file.
pub(crate) type Seen<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

/// Rows of the host engine.
pub(crate) fn on_host(
    host: &Arc<Host>,
    shape: &RowShape,
    file: FileRows,
    seen: Seen<'_>,
) -> Result<HostRows> {
    let is_narrowed = shape.screen.is_wanted_on_host(shape.dim);
    let (mut rows, mut pieces) = unchecked(host.clone(), shape, file, is_narrowed)?;
    rows.count(Vectors::from(&pieces.sample(&rows)?).on_host()?)?;
    while pieces.next(&mut rows, seen)?.is_some() {}
    expect_order(&rows, false);
    Ok(rows)
}

#[cfg(not(target_arch = "wasm32"))]
/// Rows of an index on a GPU.
pub(crate) async fn apart(
    gpu: &Arc<Gpu>,
    shape: &RowShape,
    file: FileRows,
    seen: Seen<'_>,
) -> Result<ApartRows> {
    let shape =
        RowShape { expected: file.slots.iter().max().map_or(0, |&last| u64::from(last) + 1), ..*shape };
    let shape = RowShape { kept: outgrown::first(gpu, &shape), ..shape };
    let host = Arc::new(Host::new(gpu.options.clone()));
    let (rows, mut pieces) = unchecked(host, &shape, file, false)?;
    let sample = pieces.sample(&rows)?;
    let mut rows = ApartRows::of(gpu, &shape, rows)?;
    rows.narrow_all(Vectors::from(&sample).on_host()?, |rows| pieces.next(rows, seen)).await?;
    expect_order(&rows.rows, false);
    Ok(rows)
}

/// The rows of a file in their slots, still to be checked.
fn unchecked(
    host: Arc<Host>,
    shape: &RowShape,
    file: FileRows,
    is_narrowed: bool,
) -> Result<(HostRows, FilePieces)> {
    let FileRows { mut rows, ids, slots } = file;
    let end = slots.iter().max().map_or(0, |&last| last as usize + 1);
    let mut by_slot = memory::filled(end, 0)?;
    slots.iter().zip(ids).for_each(|(&slot, id)| by_slot[slot as usize] = id);
    let (_, alive) = Bits::after(None, 0, &slots, &[])?;
    if !slots.iter().zip(0..).all(|(&slot, row)| slot == row) {
        let mut of_slots = memory::filled(end, 0)?;
        slots.iter().zip(0..).for_each(|(&slot, row)| of_slots[slot as usize] = row);
        rows.of_slots = Some(of_slots);
    }
    let rows = HostRows::of_file(host, shape.metric, rows, (by_slot, alive), is_narrowed)?;
    expect_order(&rows, true);
    Ok((rows, FilePieces { slots, done: 0 }))
}

fn expect_order(rows: &HostRows, is_in_order: bool) {
    if let Some(mapped) = rows.values.file() {
        mapped.file.expect_order(is_in_order);
    }
}

/// The slots of a file's rows, and how many of these were read.
struct FilePieces {
    slots: Vec<u32>,
    done: usize,
}

impl FilePieces {
    /// Copies of some rows, evenly spread over the file.
    fn sample(&self, rows: &HostRows) -> Result<Matrix> {
        rows.check_file()?;
        let (all, count) = (self.slots.len() as u128, self.slots.len().min(SAMPLE));
        let slot = |number: usize| self.slots[(number as u128 * all / count as u128) as usize];
        rows.values.gathered(&memory::collect((0..count).map(slot))?)
    }

    /// Copies of the next rows, which are checked, and narrowed by the host engine, and their slots. None behind the last.
    fn next(&mut self, rows: &mut HostRows, seen: Seen<'_>) -> Result<Option<(Matrix, Vec<u32>)>> {
        interrupt::check()?;
        rows.check_file()?;
        let first = self.done;
        let row_bytes = rows.dim() * rows.values.kind().size();
        self.done = self.slots.len().min(first + (PIECE_BYTES / row_bytes).max(1));
        let slots = memory::copied(&self.slots[first..self.done])?;
        if slots.is_empty() {
            return Ok(None);
        }
        let piece = rows.values.gathered(&slots)?;
        let vectors = Vectors::from(&piece).on_host()?;
        seen(vectors.bytes());
        rows.enter(&slots, vectors).map_err(|error| error.with_rows(|row| first as u64 + row))?;
        Ok(Some((piece, slots)))
    }
}
