//! How the operands of a reduction get to a GPU: from where they are, in runs of a binding or of a staging buffer.

use std::ops::Range;

use crate::engine::device::values::{ValueRows, Values};
use crate::engine::ops::job::STAGED_BYTES;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Gpu, RowLayout, usable};

/// Values of a submission: few enough that no system takes a weak GPU for hung.
pub(super) const SUBMITTED_NUMBERS: u64 = 1 << 29;

/// An operand that is brought to the GPU a run at a time.
pub(super) struct Feed<'a> {
    pub(super) values: Values<'a>,
    /// For values on the host: the staging buffer, and how many values it holds.
    pub(super) staging: Option<(&'a Buffer, u64)>,
}

impl Feed<'_> {
    /// How many values from `at` on one run holds.
    pub(super) fn run(&self, at: u64, count: u64, block: u64) -> u64 {
        match (&self.values, self.staging) {
            (Values::Device(vector), _) => vector.run(at, count, block).1,
            (_, Some((_, most))) => count.min(most),
            (_, None) => count,
        }
    }

    /// Brings them to the GPU.
    pub(super) async fn fetch(&self, gpu: &Gpu, at: u64, count: u64, block: u64) -> Result<BufferSlice<'_>> {
        let size = self.values.kind().size() as u64;
        match (&self.values, self.values.host_bytes(), self.staging) {
            (Values::Device(vector), ..) => Ok(vector.run(at, count, block).0),
            (_, Some(bytes), Some((buffer, _))) => {
                gpu.upload_elements(buffer, &bytes[(at * size) as usize..((at + count) * size) as usize])
                    .await?;
                Ok(BufferSlice::range(buffer, 0, count.next_multiple_of(4) * size))
            }
            _ => Err(Error::internal("values on the host without a staging buffer")),
        }
    }
}

/// Values on the host that are staged at a time: whole blocks. `records_bytes` of the budget are for what the blocks leave.
pub(super) fn staged_numbers(gpu: &Gpu, feeds: &[Values<'_>], block: u64, records_bytes: u64) -> u64 {
    let size = feeds[0].kind().size() as u64;
    let hosts = feeds.iter().filter(|values| values.host_bytes().is_some()).count().max(1) as u64;
    let share = usable(gpu.options.budget_bytes).saturating_sub(records_bytes) / hosts;
    let bytes = share.min(STAGED_BYTES).min(gpu.adapter.capabilities.max_binding_bytes);
    (bytes / size / block).max(1) * block
}

/// Rows that are reduced at a time, 0 if the budget is too small for one: each takes staging memory for `hosts` operands on the host,
/// `scratch_bytes` beside it, and `records_bytes` of a binding.
pub(super) fn rows_at_once(
    gpu: &Gpu,
    layout: RowLayout,
    hosts: u64,
    scratch_bytes: u64,
    records_bytes: u64,
) -> u64 {
    let binding = gpu.adapter.capabilities.max_binding_bytes;
    let row_bytes = hosts * layout.row_bytes() + scratch_bytes;
    let staged_rows = if hosts > 0 { STAGED_BYTES.min(binding) / layout.row_bytes() } else { u64::MAX };
    (usable(gpu.options.budget_bytes) / row_bytes)
        .min(staged_rows)
        .min(binding / records_bytes)
        .min(u64::from(u32::MAX) / 256)
}

/// Rows on the GPU: a buffer, the elements before the first row, and the elements from one row to the next. Rows on the host are copied
/// to the staging buffer.
pub(super) async fn fetch_rows<'b>(
    gpu: &Gpu,
    rows: &'b ValueRows<'_>,
    layout: RowLayout,
    range: Range<usize>,
    staging: Option<&'b Buffer>,
) -> Result<(BufferSlice<'b>, usize, usize)> {
    match (rows.on_device(), staging) {
        (Some((buffer, stride)), _) => Ok((BufferSlice::all(buffer), range.start * stride, stride)),
        (None, Some(buffer)) => {
            let bytes = range.len() as u64 * layout.row_bytes();
            if let Some(vectors) = rows.host_vectors() {
                gpu.upload_rows(buffer, 0, layout, vectors.slice(range), &mut |_| ()).await?;
            }
            Ok((BufferSlice::range(buffer, 0, bytes), 0, layout.stride))
        }
        (None, None) => Err(Error::internal("rows on the host without a staging buffer")),
    }
}
