//! How the operands of a reduction get to a GPU: from where they are, in runs of a binding or of a staging buffer.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::device::values::{ValueRows, Values};
use crate::engine::ops::job::STAGED_BYTES;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, Request, RowLayout, Scratch, usable};

/// Values of a submission: few enough that no system takes a weak GPU for hung.
const SUBMITTED_NUMBERS: u64 = 1 << 29;

/// The operands of a reduction, of one length, which are brought to the GPU a run at a time.
pub(super) struct Feed<'a> {
    gpu: &'a Gpu,
    /// Each with a staging buffer if its values are on the host.
    operands: Vec<(Values<'a>, Option<&'a Buffer>)>,
    /// Values of a staging buffer and of a block. Both begin with a block.
    sizes: [u64; 2],
    /// Where the next run begins.
    at: u64,
    /// Values of runs whose commands are not submitted yet.
    unsent: u64,
}

/// The same values of each operand, on the GPU.
pub(super) struct Run<'a> {
    pub(super) at: u64,
    pub(super) count: u64,
    pub(super) operands: Vec<BufferSlice<'a>>,
}

/// Takes scratch memory: the first request is what blocks leave. Staging buffers for operands on the host follow the requests; the other result
/// is how many values each of them holds, whole blocks.
pub(super) async fn reserve(
    gpu: &Arc<Gpu>,
    operands: &[Values<'_>],
    block: u64,
    mut requests: Vec<Request>,
) -> Result<(Scratch, u64)> {
    let (size, length) = (operands[0].kind().size() as u64, operands[0].len());
    let hosts = operands.iter().filter(|values| values.host_bytes().is_some()).count();
    let share = usable(gpu.options.budget_bytes).saturating_sub(requests[0].bytes) / hosts.max(1) as u64;
    let bytes = share.min(STAGED_BYTES).min(gpu.adapter.capabilities.max_binding_bytes);
    let staged = (bytes / size / block).max(1) * block;
    let bytes = staged.min(length.next_multiple_of(4)) * size;
    requests.extend((0..hosts).map(|_| Request { purpose: "numbers to reduce", bytes }));
    Ok((gpu.reserve(&requests).await?, staged))
}

impl<'a> Feed<'a> {
    /// The staging buffers, of `staged` values, are the `scratch` buffers from number `first` on.
    pub(super) fn new(
        gpu: &'a Gpu,
        operands: &[Values<'a>],
        (scratch, first): (&'a Scratch, usize),
        [staged, block]: [u64; 2],
    ) -> Self {
        let mut buffers = (first..).map(|number| &scratch[number]);
        let mut staging = |values: &Values<'_>| values.host_bytes().and_then(|_| buffers.next());
        let operands = operands.iter().map(|values| (*values, staging(values))).collect();
        Self { gpu, operands, sizes: [staged, block], at: 0, unsent: 0 }
    }

    /// Brings the next run to the GPU; none at the end. Kernels of earlier runs may be submitted, and those that read a staging buffer are
    /// before it is written again.
    pub(super) async fn next(&mut self, commands: &mut Commands<'_>) -> Result<Option<Run<'a>>> {
        let (at, [staged, block]) = (self.at, self.sizes);
        let mut count = self.operands[0].0.len() - at;
        if count == 0 {
            return Ok(None);
        }
        for (values, _) in &self.operands {
            count = match values {
                Values::Device(vector) => vector.run(at, count, block).1,
                Values::Host(_) => count.min(staged),
            };
        }
        let is_staged = self.operands.iter().any(|(_, staging)| staging.is_some());
        if at > 0 && (is_staged || self.unsent >= SUBMITTED_NUMBERS) {
            commands.submit_and_go_on().await?;
            self.unsent = 0;
        }
        let mut operands = Vec::with_capacity(self.operands.len());
        for &(values, staging) in &self.operands {
            operands.push(match (values, staging) {
                (Values::Device(vector), _) => vector.run(at, count, block).0,
                (Values::Host(all), Some(buffer)) => {
                    let size = all.kind().size() as u64;
                    let range = (at * size) as usize..((at + count) * size) as usize;
                    self.gpu.upload_elements(buffer, &all.bytes()[range]).await?;
                    BufferSlice::range(buffer, 0, count.next_multiple_of(4) * size)
                }
                (Values::Host(_), None) => {
                    return Err(Error::internal("values on the host without a staging buffer"));
                }
            });
        }
        (self.at, self.unsent) = (at + count, self.unsent + count);
        Ok(Some(Run { at, count, operands }))
    }
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
