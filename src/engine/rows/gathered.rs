//! Rows in another order, as rows of their own: a screen scores copies of their codes, which lie side by side in scratch memory. They are those
//! that a filter allows, or all rows for a graph.

use crate::engine::rows::allowed::Scope;
use crate::engine::rows::segments::{GpuRows, Segment};
use crate::engine::screens::int8::codes::{QuantizedSegment, TERMS_BYTES};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Commands, usable};
use crate::kernels::{BLOCK_ROWS, gather};

/// Rows are gathered where at most one in this many is allowed.
const SHARE: u64 = 2;

/// Copies of their codes take at most one byte in this many of the scratch memory.
const SCRATCH_SHARE: u64 = 2;

/// The buffers of gathered rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatheredBuffers<'a> {
    /// The slots that they come from, in order.
    pub(crate) slots: &'a Buffer,
    pub(crate) codes: &'a Buffer,
    pub(crate) terms: &'a Buffer,
}

impl GpuRows {
    /// The allowed rows as [`gather`](Self::gather) leaves them, still without their codes. None without a filter or codes, and where they are too
    /// many.
    pub(crate) fn to_gather(&self, scope: Scope<'_>) -> Option<Self> {
        let count = scope.allowed?.count;
        (SHARE * count <= self.end()).then(|| self.in_order(count, scope.budget)).flatten()
    }

    /// As many rows as [`gather`](Self::gather) leaves them, still without their codes. None without codes, and where these would not fit.
    pub(crate) fn in_order(&self, count: u64, budget: u64) -> Option<Self> {
        let quantized = self.quantized.clone()?;
        let codes = quantized.plane_bytes(count);
        let fits = codes <= self.gpu.adapter.capabilities.max_binding_bytes
            && SCRATCH_SHARE * codes <= usable(budget);
        let (len, capacity) = (count as u32, (count as u32).next_multiple_of(BLOCK_ROWS));
        let segment = Segment { stored: None, quantized: None, first_slot: 0, len, capacity };
        let mut gathered = self.quantized_from(quantized, vec![segment], None);
        // A plan for them is that of rows on the device: it refines the rows that they come from.
        gathered.keeps_rows = true;
        (fits && self.keeps_rows).then_some(gathered)
    }

    /// The bytes of the slots, the codes and the terms of gathered rows.
    pub(crate) fn gathered_bytes(&self) -> [u64; 3] {
        let codes = self.quantized.as_ref().map_or(0, |quantized| quantized.plane_bytes(self.end()));
        [self.end() * 4, codes, self.end().next_multiple_of(BLOCK_ROWS.into()) * TERMS_BYTES]
    }

    /// Copies the codes of the rows in some slots `from` where they lie, in the order of the list.
    pub(crate) async fn gather(
        mut self,
        from: &Self,
        list: &[u32],
        GatheredBuffers { slots, codes, terms }: GatheredBuffers<'_>,
    ) -> Result<Self> {
        self.gpu.upload_bytes(slots, 0, bytemuck::cast_slice(list)).await?;
        let is_sorted = list.is_sorted();
        let mut commands = Commands::new(&self.gpu, None);
        for (number, segment) in from.segments.iter().enumerate() {
            let place = |slot: u32| list.partition_point(|&one| one < slot) as u32;
            // In any other order, each segment copies the rows that it has.
            let [first_place, end_place] = match is_sorted {
                true => [segment.first_slot, segment.first_slot + segment.len].map(place),
                false => [0, list.len() as u32],
            };
            let is_last = number + 1 == from.segments.len();
            let params = gather::Params {
                granules: self.quantized.as_ref().map_or(0, |quantized| quantized.granules()),
                first_place,
                end_place: if is_last { end_place.next_multiple_of(BLOCK_ROWS) } else { end_place },
                entries: list.len() as u32,
                first_slot: segment.first_slot,
                rows: segment.len,
            };
            let copy = segment.quantized.as_ref();
            let copy = copy.ok_or_else(|| Error::internal("rows to gather have no quantised copy"))?;
            let buffers = gather::Buffers {
                slots,
                codes: &copy.rows,
                terms: &copy.terms,
                gathered: codes,
                gathered_terms: terms,
            };
            gather::encode(&mut commands, &params, &buffers)?;
        }
        commands.submit();
        let copy = QuantizedSegment { rows: codes.clone(), terms: terms.clone(), share: None };
        self.segments.iter_mut().for_each(|segment| segment.quantized = Some(copy.clone()));
        Ok(self)
    }
}
