//! Rows that outgrow the memory of their device: which place comes next, and how they go there.

use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::apart::ApartRows;
use crate::engine::rows::apart::changes::ApartChange;
use crate::engine::rows::narrowed::TERMS_BYTES;
use crate::engine::rows::segments::{GpuRows, STORED_BYTES, Segment};
use crate::engine::rows::shape::{Kept, RowShape};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Gpu, Loan, RowLayout};
use crate::host::{self, Host, HostRows};
use crate::interrupt;
use crate::kernels::narrow;
use crate::matrix::{ElementKind, Matrix};
use crate::memory;

/// Rows that tell where the centre is.
const SAMPLE: usize = 4096;

/// Where rows go that the memory of their device has no room for; none where they stay. Each place takes less of the device's memory than
/// the one before it: whoever adds a place below the 8-bit copy adds it here.
pub(crate) fn next(shape: &RowShape) -> Option<Kept> {
    match shape.kept {
        // Without a screen the host would search alone, which is not what a GPU was asked for.
        Kept::Auto { is_fallback, streams } if shape.screen.is_wanted_on_host(shape.dim) => {
            Some(Kept::Apart { is_fallback, streams })
        }
        Kept::Apart { is_fallback, streams: true } if shape.screen.is_wanted_on_host(shape.dim) => {
            Some(Kept::Streamed { is_fallback })
        }
        _ => None,
    }
}

/// Where rows are from the start, if as many are expected as the device has no room for.
pub(crate) fn first(gpu: &Gpu, shape: &RowShape) -> Kept {
    let Some(next) = next(shape) else { return shape.kept };
    let narrowed = narrow::plane_bytes(128, shape.dim) / 128 + TERMS_BYTES;
    let row_bytes = match shape.kept {
        Kept::Apart { .. } => narrowed,
        _ => {
            let is_narrowed = shape.screen.is_wanted(gpu, shape.dim);
            let stored = RowLayout::padded(shape.elements, shape.dim).row_bytes() + STORED_BYTES;
            stored + if is_narrowed { narrowed } else { 0 }
        }
    };
    let needed = shape.expected.saturating_mul(row_bytes);
    let granted = || gpu.memory_usage().map_or(u64::MAX, |usage| usage.free_bytes);
    let is_known = shape.expected > 0;
    match is_known && (needed > gpu.rows_limit.free() || needed > granted()) {
        true => first(gpu, &RowShape { kept: next, ..*shape }),
        false => shape.kept,
    }
}

/// A change of rows that have left their device: they are on the host when it is applied.
pub(crate) struct Outgrown<'a> {
    pub(crate) rows: ApartRows,
    pub(crate) change: ApartChange<'a>,
    /// The memory of the rows that are on the device until then.
    pub(crate) loan: Loan,
}

impl GpuRows {
    /// Whether the rows go to the host after this error of a change.
    pub(crate) fn outgrow(&self, error: &Error) -> bool {
        self.outgrown.is_some() && error.lacks_memory()
    }

    /// Lends the memory of the rows themselves.
    pub(crate) fn lent(&self) -> Loan {
        let stored = self.segments.iter().filter_map(|segment| segment.stored.as_ref());
        Loan::new(stored.filter_map(|stored| stored.share.clone()))
    }

    /// The same rows in the host's memory. Their narrowed copy is that of these rows, whose segments share it; without one, it is made.
    pub(crate) async fn brought_to_host(&self) -> Result<ApartRows> {
        let shape = self.outgrown.ok_or_else(|| Error::internal("rows that stay on the device"))?;
        let is_fallback = matches!(shape.kept, Kept::Auto { is_fallback: true, .. });
        let streams = matches!(shape.kept, Kept::Auto { streams: true, .. });
        let rows = self.read_back(&shape).await?;
        if let Some(narrowed) = &self.narrowed {
            let without_rows = |segment: &Segment| Segment { stored: None, ..segment.clone() };
            let integers = self.narrowed_from(
                narrowed.clone(),
                self.segments.iter().map(without_rows).collect(),
                self.alive.clone(),
            );
            return Ok(ApartRows::with(Some(integers), rows, [is_fallback, streams]));
        }
        let mut apart =
            ApartRows::of(&self.gpu, &RowShape { kept: next(&shape).unwrap_or(shape.kept), ..shape }, rows)?;
        if self.len() > 0 {
            let slots = Bits::slots(self.alive.as_ref().map(|alive| &alive.bits), self.end() as usize)?;
            let (all, count) = (slots.len() as u128, slots.len().min(SAMPLE));
            let sampled = (0..count).map(|number| slots[(number as u128 * all / count as u128) as usize]);
            let sample = apart.rows.values.gathered(&memory::collect(sampled)?)?;
            if let Some(narrowing) = apart.narrowing(Vectors::from(&sample).on_host()?).await? {
                for slots in slots.chunks(shape.elements.rows_of_piece(shape.dim)) {
                    interrupt::check()?;
                    let rows = apart.rows.values.gathered(slots)?;
                    apart.narrow(&narrowing, (Vectors::from(&rows).on_host()?, slots)).await?;
                }
                apart.narrowed(narrowing).await?;
            }
        }
        Ok(apart)
    }

    /// Reads rows and ids back, piece after piece.
    async fn read_back(&self, shape: &RowShape) -> Result<HostRows> {
        let &RowShape { metric, elements, dim, expected, .. } = shape;
        let needed = self.len() * (dim * elements.size()) as u64;
        if host::memory_usage().is_some_and(|usage| usage.free_bytes < needed) {
            let purpose = "rows that leave the device for the host's memory".into();
            return Err(Error::OutOfMemory { purpose, bytes: Some(needed) });
        }
        let host = Arc::new(Host::new(self.gpu.options.clone()));
        let mut rows =
            HostRows::new(host, metric, elements, dim, false).expecting(expected.max(self.end()))?;
        rows.resize(self.end() as usize)?;
        let alive = self.alive.as_ref().map(|alive| &alive.bits);
        let of_ids = RowLayout { elements: ElementKind::F32, stride: 2 };
        let mut buffers = vec![];
        for segment in &self.segments {
            let ids = BufferSlice::all(&segment.stored()?.ids);
            buffers.push((ids, segment.first_slot, segment.capacity));
        }
        let used = dim * elements.size();
        for slots in Bits::slots(alive, self.end() as usize)?.chunks(elements.rows_of_piece(dim)) {
            interrupt::check()?;
            let mut bytes = memory::with_room(slots.len() * used)?;
            self.gather_own(slots, |row| bytes.extend_from_slice(&row[..used])).await?;
            let mut ids: Vec<u64> = memory::with_room(slots.len())?;
            let add = |id: &[u8]| ids.push(bytemuck::pod_read_unaligned(id));
            self.gather_bytes(&buffers, of_ids, slots, add).await?;
            let matrix: Matrix = shape.matrix_of(&bytes)?;
            rows.receive((slots, &ids), Vectors::from(&matrix).on_host()?)?;
        }
        rows.alive = alive.map(Bits::copied).transpose()?;
        Ok(rows)
    }
}
