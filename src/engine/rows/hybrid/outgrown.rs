//! Rows that outgrow the memory of their device: which place comes next, and how they go there.

use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::{ElementKind, Matrix};
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::rows::hybrid::changes::{HybridChange, spread_out};
use crate::engine::rows::segments::{GpuRows, STORED_BYTES, Segment};
use crate::engine::rows::shape::RowShape;
use crate::engine::screens::int8::codes::TERMS_BYTES;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Gpu, Loan, RowLayout};
use crate::host::{self, Host, HostRows};
use crate::interrupt;
use crate::kernels::quantize;
use crate::memory;
use crate::options::residency::Residency;
use crate::screen::certificate::are_codes;

/// Where rows go that the memory of their device has no room for; none where they stay. Each place takes less of the device's memory than
/// the one before it: whoever adds a place below the 8-bit copy adds it here.
pub(crate) fn next(shape: &RowShape) -> Option<Residency> {
    let next = match shape.kept {
        Residency::Auto => Residency::Host,
        Residency::Host if shape.streams => Residency::Streamed,
        _ => return None,
    };
    // Without a screen the host would search alone, which is not what a GPU was asked for.
    shape.quantization.is_wanted_on_host(shape.dim).then_some(next)
}

/// Where rows are from the start, on all devices alike: the host has them if one device has no room for its part.
pub(crate) fn first_of(devices: &[Device], shape: &RowShape) -> Residency {
    let of_device = |device: &Device| match &device.engine {
        Engine::Gpu(gpu) => first(gpu, shape),
        Engine::Host(_) => shape.kept,
    };
    devices.iter().map(of_device).max().unwrap_or(shape.kept)
}

/// Where rows are from the start, if as many are expected as the device has no room for.
fn first(gpu: &Gpu, shape: &RowShape) -> Residency {
    let Some(next) = next(shape) else { return shape.kept };
    let quantized = quantize::plane_bytes(128, shape.dim) / 128 + TERMS_BYTES;
    let is_stored = shape.kept != Residency::Host;
    let is_quantized = !is_stored || shape.quantization.is_wanted(gpu, shape.dim);
    let are_codes = is_quantized && are_codes(shape.metric, shape.elements, shape.dim);
    let rows = if are_codes { 0 } else { RowLayout::padded(shape.elements, shape.dim).row_bytes() };
    let stored = rows + STORED_BYTES;
    let row_bytes = u64::from(is_stored) * stored + u64::from(is_quantized) * quantized;
    let needed = shape.expected.saturating_mul(row_bytes);
    let granted = || gpu.memory_usage().map_or(u64::MAX, |usage| usage.free_bytes);
    let is_known = shape.expected > 0;
    match is_known && (needed > gpu.rows_limit.free() || needed > granted()) {
        true => first(gpu, &RowShape { kept: next, ..*shape }),
        false => shape.kept,
    }
}

/// An error if the host has less than these bytes free, which rows on devices have.
pub(crate) fn check_host_room(bytes: u64) -> Result<()> {
    if host::memory_usage().is_some_and(|usage| usage.free_bytes < bytes) {
        let purpose = "rows that leave the device for the host's memory".into();
        return Err(Error::OutOfMemory { purpose, bytes: Some(bytes) });
    }
    Ok(())
}

/// A change of rows that have left their device: they are on the host when it is applied.
pub(crate) struct Outgrown<'a> {
    pub(crate) rows: HybridRows,
    pub(crate) change: HybridChange<'a>,
    /// The memory of the rows that are on the device until then.
    pub(crate) loan: Loan,
}

impl GpuRows {
    pub(crate) fn lent(&self) -> Loan {
        let of_segment = |segment: &Segment| {
            let stored = segment.stored.as_ref().and_then(|stored| stored.share.clone());
            // Codes that are rows go with them, and a copy is made anew.
            let codes = segment.quantized.as_ref().filter(|_| self.layout.in_blocks);
            [stored, codes.and_then(|codes| codes.share.clone())]
        };
        Loan::new(self.segments.iter().flat_map(of_segment).flatten())
    }

    /// The same rows in the host's memory. Their quantised copy is that of these rows, whose segments share it. Without one, and where rows were
    /// their own codes, it is made.
    pub(crate) async fn brought_to_host(&self) -> Result<HybridRows> {
        let shape = self.outgrown.ok_or_else(|| Error::internal("rows that stay on the device"))?;
        let shape = RowShape { kept: next(&shape).unwrap_or(shape.kept), ..shape };
        let rows = self.read_back(&shape).await?;
        if let Some(quantized) = self.quantized.as_ref().filter(|quantized| !quantized.are_rows) {
            let without_rows = |segment: &Segment| Segment { stored: None, ..segment.clone() };
            let integers = self.quantized_from(
                quantized.clone(),
                self.segments.iter().map(without_rows).collect(),
                self.alive.clone(),
            );
            return Ok(HybridRows::with(Some(integers), rows, &shape));
        }
        let mut hybrid = HybridRows::of(&self.gpu, &shape, rows)?;
        if self.len() > 0 {
            let slots = Bits::slots(self.alive.as_ref().map(|alive| &alive.bits), self.end() as usize)?;
            let sampled = spread_out(slots.len()).map(|place| slots[place]);
            let sample = hybrid.rows.values.gathered(&memory::collect(sampled)?)?;
            if let Some(quantizing) = hybrid.quantizing((&sample).into()).await? {
                for slots in slots.chunks(shape.elements.rows_of_piece(shape.dim)) {
                    interrupt::check()?;
                    let rows = hybrid.rows.values.gathered(slots)?;
                    hybrid.quantize(&quantizing, ((&rows).into(), slots)).await?;
                }
                hybrid.quantized(quantizing).await?;
            }
        }
        Ok(hybrid)
    }

    async fn read_back(&self, shape: &RowShape) -> Result<HostRows> {
        let &RowShape { metric, elements, dim, expected, .. } = shape;
        check_host_room(self.len() * shape.row_bytes() as u64)?;
        let host = Arc::new(Host::beside_gpu(&self.gpu.options));
        let mut rows =
            HostRows::new(host, metric, elements, dim, false).expecting(expected.max(self.end()))?;
        rows.resize(self.end() as usize)?;
        let alive = self.alive.as_ref().map(|alive| &alive.bits);
        let of_ids = RowLayout::new(ElementKind::F32, 2);
        let mut buffers = vec![];
        for segment in &self.segments {
            let ids = BufferSlice::all(&segment.stored()?.ids);
            buffers.push((ids, segment.first_slot, segment.capacity));
        }
        let used = shape.row_bytes();
        for slots in Bits::slots(alive, self.end() as usize)?.chunks(elements.rows_of_piece(dim)) {
            interrupt::check()?;
            let mut bytes = memory::with_room(slots.len() * used)?;
            self.gather_own(slots, |row| bytes.extend_from_slice(&row[..used])).await?;
            let mut ids: Vec<u64> = memory::with_room(slots.len())?;
            let add = |id: &[u8]| ids.push(bytemuck::pod_read_unaligned(id));
            self.gather_bytes(&buffers, of_ids, slots, add).await?;
            rows.receive((slots, &ids), (&Matrix::of_bytes(elements, &bytes, dim)?).into())?;
        }
        rows.alive = alive.map(Bits::copied).transpose()?;
        Ok(rows)
    }
}
