//! The rows of an index, on one device or on several: what an index asks of its rows.

use std::time::Duration;

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::device_rows::DeviceRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::rows::write::Placing;
use crate::engine::search::plan::Plan;
use crate::engine::spread::devices::Devices;
use crate::engine::tune::TunedKernel;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::{rows::outgrown::first_of, spread::rows::SpreadRows};
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::host::HostRows;
use crate::memory;
use crate::metric::Metric;
use crate::options::placement::Placement;
use crate::usage::{Memory, MemoryPart, MemoryPlace};

/// The rows of an index.
#[derive(Debug)]
pub(crate) enum EngineRows {
    One(Box<DeviceRows>),
    #[cfg(not(target_arch = "wasm32"))]
    Several(Box<SpreadRows>),
}

/// The same call on rows of either kind. An index in a browser lives on one device.
macro_rules! on_either {
    ($all:expr, $rows:ident => $call:expr) => {
        match $all {
            Self::One($rows) => $call,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several($rows) => $call,
        }
    };
}

/// Rows to move from slots to as many others.
pub(crate) type Moves = (Vec<u32>, Vec<u32>);

impl EngineRows {
    #[cfg_attr(target_arch = "wasm32", expect(unused_variables, reason = "one device"))]
    pub(crate) fn new<'f>(
        devices: &'f Devices,
        placement: Placement,
        shape: &'f RowShape,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            match devices.list() {
                [device] => {
                    #[cfg(not(target_arch = "wasm32"))]
                    let shape = &RowShape { kept: first_of(std::slice::from_ref(device), shape), ..*shape };
                    Ok(Self::One(Box::new(DeviceRows::new(device, shape).await?)))
                }
                #[cfg(not(target_arch = "wasm32"))]
                _ => Ok(Self::Several(Box::new(SpreadRows::new(devices, placement, shape).await?))),
                #[cfg(target_arch = "wasm32")]
                several => Err(Error::argument("devices", "one, in a browser", several.len())),
            }
        })
    }

    pub(super) fn parts(&self) -> &[DeviceRows] {
        match self {
            Self::One(rows) => std::slice::from_ref(&**rows),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) => &rows.parts,
        }
    }

    /// The place of the first device that is not lost.
    pub(super) fn first_live(&self) -> Result<usize> {
        match self {
            Self::One(_) => Ok(0),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) => rows.live().first().copied().ok_or_else(|| rows.none_left()),
        }
    }

    /// The rows of one host engine.
    pub(crate) fn on_host(&mut self) -> Result<&mut HostRows> {
        if let Self::One(rows) = self
            && let DeviceRows::Host(rows) = &mut **rows
        {
            return Ok(rows);
        }
        Err(Error::internal("the copy of the rows is not on the host"))
    }

    /// Compiles the kernels of searches in these rows, tests those that need it, and waits for both.
    pub(crate) fn warm_up(&self, metric: Metric) -> Boxed<'_, ()> {
        Box::pin(async move { on_either!(self, rows => rows.warm_up(metric).await) })
    }

    /// Times the kernels of searches in these rows, and uses the faster forms.
    pub(crate) fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        Box::pin(async move { on_either!(self, rows => rows.tune(metric, is_again).await) })
    }

    /// Where the rows are: all devices have them in one place.
    pub(crate) fn place(&self) -> MemoryPlace {
        let places = self.parts().iter().map(DeviceRows::place);
        // A replica that was lost keeps what it had.
        places.reduce(|one, other| if one == MemoryPlace::Device { other } else { one }).unwrap_or_default()
    }

    /// Whether GPUs have the quantised copy alone.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.parts().iter().any(DeviceRows::is_hybrid)
    }

    /// Whether there is a quantised copy of the rows.
    pub(crate) fn is_quantized(&self) -> bool {
        self.parts().iter().all(DeviceRows::is_quantized)
    }

    /// Puts rows into slots that have none; all of them or, after an error, none.
    ///
    /// The caller chooses the slots. Slots behind the end are created, and those left out below it become tombstones.
    pub(crate) async fn put(
        &mut self,
        source: Vectors<'_>,
        placing: &Placing<'_>,
        progress: RowProgress<'_>,
    ) -> Result<()> {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::One(rows) => put_on_one(rows, source, placing, progress).await,
            #[cfg(target_arch = "wasm32")]
            Self::One(rows) => {
                let change = rows.prepared_put(source, placing, progress).await?;
                rows.apply(change)
            }
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) => rows.put(source.fetched().await?.vectors(), placing, progress).await,
        }
    }

    /// Removes the rows in these slots; the end may move down.
    pub(crate) async fn release(&mut self, freed: &[u32]) -> Result<()> {
        on_either!(self, rows => rows.release(freed).await)
    }

    /// Moves rows, with their ids, to slots of the same device that have none.
    pub(crate) fn relocate<'f>(&'f mut self, from: &'f [u32], to: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(async move { on_either!(self, rows => rows.relocate(from, to).await) })
    }

    /// The moves after which the first slots of every device have all of its rows.
    pub(crate) fn moves(&self) -> Result<Moves> {
        let (mut from, mut to) = (vec![], vec![]);
        let has_row = self.has_row();
        for slots in self.slots_by_device() {
            let mut all: Vec<u32> = memory::with_room(self.end() as usize)?;
            all.extend(slots);
            let rows = all.iter().filter(|&&slot| has_row(slot)).count();
            let (first, last) = all.split_at(rows);
            to.extend(first.iter().copied().filter(|&slot| !has_row(slot)));
            from.extend(last.iter().copied().filter(|&slot| has_row(slot)));
        }
        Ok((from, to))
    }

    /// The slots below the end, device by device; all of them once where all devices have them.
    fn slots_by_device(&self) -> Vec<Box<dyn Iterator<Item = u32> + '_>> {
        match self {
            Self::One(rows) => vec![Box::new(0..rows.end() as u32)],
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) => rows.slots_by_device(),
        }
    }

    /// The device of a slot: rows do not move to slots of others.
    #[cfg_attr(target_arch = "wasm32", expect(unused_variables, reason = "one device"))]
    pub(crate) fn device_of(&self, slot: u32) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) => rows.device_of(slot),
        }
    }

    /// The most slots of a device, and how many of them have no row, for the device with the largest part of such.
    pub(crate) fn sparsest(&self) -> (u64, u64) {
        let counts = self.parts().iter().map(|rows| (rows.end(), rows.end() - rows.len()));
        counts.max_by(|a, b| (a.1 * b.0.max(1)).cmp(&(b.1 * a.0.max(1)))).unwrap_or_default()
    }

    /// Frees memory behind the end where there is much of it.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        on_either!(self, rows => rows.shrink())
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(crate) fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move { on_either!(self, rows => rows.fetch(slots).await) })
    }

    /// The rows in these slots, `[slots, dim]`: their bytes as they are stored, without padding.
    pub(crate) fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        on_either!(self, rows => Box::pin(rows.fetch_bytes(slots)))
    }

    /// Which slots below the end have a row; none when all have.
    pub(crate) fn alive(&self) -> Option<&Bits> {
        on_either!(self, rows => rows.alive())
    }

    /// A function that tells of any slot whether it has a row.
    pub(crate) fn has_row(&self) -> impl Fn(u32) -> bool + '_ {
        let (alive, end) = (self.alive(), self.end());
        move |slot| u64::from(slot) < end && alive.is_none_or(|bits| bits.get(slot as usize))
    }

    /// One past the last slot that has a row.
    pub(crate) fn end(&self) -> u64 {
        on_either!(self, rows => rows.end())
    }

    pub(crate) fn len(&self) -> u64 {
        on_either!(self, rows => rows.len())
    }

    /// The expected duration of a search; none where it cannot be predicted.
    pub(crate) fn expected(&self, queries: usize) -> Option<Duration> {
        match self {
            Self::One(rows) => rows.expected(queries),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(_) => None,
        }
    }

    /// Whether searches of this share of the rows, `[probes, lists]`, are faster together: see [`DeviceRows::gain_together`].
    pub(crate) fn gain_together(&self, share: [u64; 2]) -> bool {
        self.parts().iter().any(|rows| rows.gain_together(share))
    }

    /// Searches that run side by side on different devices: replicas answer different queries.
    pub(crate) fn side_by_side(&self) -> usize {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Several(rows) if rows.layout.is_none() => rows.parts.len(),
            _ => 1,
        }
    }

    pub(crate) fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        on_either!(self, rows => rows.plan(queries, k, budget))
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        for (place, rows) in self.parts().iter().enumerate() {
            let mut own = Memory::default();
            rows.measure(&mut own);
            // Replicas share a file.
            let is_shared = |part: &MemoryPart| part.place == MemoryPlace::File && self.side_by_side() > 1;
            for part in own.parts().iter().filter(|part| place == 0 || !is_shared(part)) {
                memory.add(part.name, part.place, part.bytes);
            }
        }
        #[cfg(not(target_arch = "wasm32"))]
        if let (Self::Several(_), Some(bits)) = (self, self.alive()) {
            memory.add("tombstones", MemoryPlace::Host, 4 * bits.words().len() as u64);
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
/// Puts rows into slots of one device, or of the host, where all rows go if the device has no room.
async fn put_on_one(
    rows: &mut DeviceRows,
    source: Vectors<'_>,
    placing: &Placing<'_>,
    progress: RowProgress<'_>,
) -> Result<()> {
    let on_host;
    let source = if rows.is_hybrid() {
        on_host = source.fetched().await?;
        on_host.vectors().into()
    } else {
        source
    };
    match rows.prepared_put(source, placing, progress).await {
        Err(error) if rows.outgrow(&error) => {
            put_on_host(rows, source.fetched().await?.vectors(), placing, progress).await
        }
        prepared => rows.apply(prepared?),
    }
}

#[cfg(not(target_arch = "wasm32"))]
/// Puts rows into slots, and takes all rows to the host.
async fn put_on_host(
    rows: &mut DeviceRows,
    source: HostVectors<'_>,
    placing: &Placing<'_>,
    progress: RowProgress<'_>,
) -> Result<()> {
    match rows.prepared_on_host(Some((source, placing)), &[], progress).await {
        // The device may have room for the new rows' copy when the rows themselves are gone. They stay on the host, whatever comes now.
        Err(Error::OutOfMemory { .. }) => {
            let gone = rows.prepared_on_host(None, &[], &mut |_| ()).await?;
            rows.apply(gone)?;
            let change = rows.prepared_on_host(Some((source, placing)), &[], progress).await?;
            rows.apply(change)
        }
        prepared => rows.apply(prepared?),
    }
}
