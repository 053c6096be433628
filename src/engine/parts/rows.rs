//! The rows of an index on several devices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::bits::Bits;
use crate::elements::{Element, with_type};
use crate::engine::device::engine::Engine;
use crate::engine::parts::devices::Devices;
use crate::engine::parts::layout::Layout;
use crate::engine::parts::merging::all_or_first;
use crate::engine::parts::timing;
use crate::engine::parts::together::{Work, together};
use crate::engine::rows::contract::{Rows, Slots};
use crate::engine::rows::hybrid::outgrown;
use crate::engine::rows::open::open_on;
use crate::engine::rows::shape::RowShape;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::gpu::words;
use crate::memory;
use crate::options::distribution::Distribution;

/// Rows on several devices: with shards each row on one of them, with replicas each row on all.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(super) devices: Devices,
    pub(super) parts: Vec<Box<dyn Rows>>,
    pub(super) distribution: Distribution,
    pub(super) shape: RowShape,
    /// Where slots lie; with replicas they lie everywhere.
    pub(super) layout: Option<Layout>,
    /// The slots of the index that have a row; none if all have.
    pub(super) alive: Option<Bits>,
    pub(super) end: usize,
    /// The centroids of lists, `[lists, dim]`, of bits `[lists, 8 dim]`, for a device that comes when the others are lost.
    pub(super) centroids: Option<Vec<f32>>,
    /// The devices that are lost.
    lost: Vec<AtomicBool>,
    /// How many searches run on each device.
    pub(super) busy: Vec<AtomicUsize>,
}

/// The rows of a device that take part in a change, and the place of the device.
type Changing<'p> = (usize, Engine, &'p mut Box<dyn Rows>);

/// How rows are to lie on devices.
pub(super) struct Plan {
    distribution: Distribution,
    /// The rows of the index, and those of each device.
    shape: RowShape,
    pub(super) own: RowShape,
    pub(super) layout: Option<Layout>,
}

impl Plan {
    pub(super) async fn new(devices: &Devices, distribution: Distribution, shape: &RowShape) -> Result<Self> {
        let list = devices.list();
        let layout = match (list, distribution) {
            ([_], _) | (_, Distribution::Replicated) => None,
            (_, Distribution::Sharded) => Some(Layout::new(timing::shares(list).await?)),
        };
        let share =
            if layout.is_some() { shape.expected.div_ceil(list.len() as u64) } else { shape.expected };
        let own = RowShape { expected: share, ..*shape };
        let kept = outgrown::first_of(list, &own);
        let (shape, own) = (RowShape { kept, ..*shape }, RowShape { kept, ..own });
        Ok(Self { distribution, shape, own, layout })
    }

    /// Whether there is another place for the rows than the one that had too little memory; the plan is then for that.
    pub(super) fn moves_on(&mut self) -> bool {
        let next = outgrown::next(&self.own);
        next.into_iter().for_each(|kept| (self.shape.kept, self.own.kept) = (kept, kept));
        next.is_some()
    }
}

impl Parts {
    pub(super) fn new<'f>(
        devices: &'f Devices,
        distribution: Distribution,
        shape: &'f RowShape,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            let plan = Plan::new(devices, distribution, shape).await?;
            let mut parts = vec![];
            for device in devices.list() {
                parts.push(open_on(device, &plan.own).await?);
            }
            Ok(Self::of(devices, plan, parts, (0, None)))
        })
    }

    /// The rows of these devices, with their end and the slots that have one.
    pub(super) fn of(
        devices: &Devices,
        plan: Plan,
        parts: Vec<Box<dyn Rows>>,
        (end, alive): (usize, Option<Bits>),
    ) -> Self {
        let Plan { distribution, shape, layout, .. } = plan;
        let lost = parts.iter().map(|_| AtomicBool::new(false)).collect();
        let busy = parts.iter().map(|_| AtomicUsize::new(0)).collect();
        let (devices, centroids) = (devices.clone(), None);
        Self { devices, parts, distribution, shape, layout, alive, end, centroids, lost, busy }
    }

    pub(super) fn engine(&self, place: usize) -> Engine {
        self.devices.list()[place].engine.clone()
    }

    /// The places of the devices that have up-to-date rows.
    pub(super) fn live(&self) -> Vec<usize> {
        let is_lost = |place: &usize| self.lost[*place].load(Ordering::Relaxed);
        (0..self.parts.len()).filter(|place| !is_lost(place)).collect()
    }

    /// The devices that take part in a change: all shards, or the replicas that are left.
    pub(super) fn changing(&mut self) -> Result<Vec<Changing<'_>>> {
        let live = self.live();
        if live.is_empty() {
            return Err(self.none_left());
        }
        let is_replica = self.layout.is_none();
        let Self { devices, parts, .. } = self;
        let parts = parts.iter_mut().zip(devices.list()).enumerate();
        let parts = parts.filter(|(place, _)| !is_replica || live.contains(place));
        Ok(parts.map(|(place, (part, device))| (place, device.engine.clone(), part)).collect())
    }

    pub(super) fn first_live(&self) -> Result<usize> {
        self.live().first().copied().ok_or_else(|| self.none_left())
    }

    pub(super) fn none_left(&self) -> Error {
        Error::DeviceLost { reason: format!("all {} devices of the index", self.parts.len()) }
    }

    pub(super) fn is_back(&mut self, place: usize) {
        *self.lost[place].get_mut() = false;
        *self.busy[place].get_mut() = 0;
    }

    /// Notes which device was lost, and names it. A device may be lost although the host answered in its place.
    pub(super) fn noted<T>(&self, place: usize, result: Result<T>) -> Result<T> {
        if self.devices.list()[place].engine.is_lost() {
            self.lost[place].store(true, Ordering::Relaxed);
        }
        result.map_err(|error| match error {
            Error::DeviceLost { reason } => {
                self.lost[place].store(true, Ordering::Relaxed);
                let (count, adapter) = (self.parts.len(), self.devices.list()[place].adapter());
                let reason = format!("device {place} of {count}, {adapter}: {reason}");
                Error::DeviceLost { reason }
            }
            other => other,
        })
    }

    pub(super) async fn widened(&self, slots: &[u32]) -> Result<Vec<f32>> {
        let bytes = self.gathered(slots).await?;
        with_type!(self.shape.elements, T => memory::collect(words::<T>(&bytes).map(Element::widen)))
    }

    pub(super) fn gathered<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move {
            let Some(layout) = &self.layout else {
                let place = self.first_live()?;
                let work: Work<'_, Vec<u8>> =
                    (self.engine(place), Box::pin(self.parts[place].fetch_bytes(slots)));
                let fetched = together(vec![work]).await.into_iter().map(|one| self.noted(place, one));
                return Ok(all_or_first(fetched.collect())?.concat());
            };
            let picked = layout.picked(slots);
            let works = picked.iter().enumerate().map(|(place, picked)| {
                let work: Boxed<'_, Vec<u8>> = Box::pin(self.parts[place].fetch_bytes(&picked.slots));
                (self.engine(place), work)
            });
            let fetched = together(works.collect()).await;
            let fetched = fetched.into_iter().enumerate().map(|(place, one)| self.noted(place, one));
            let fetched = all_or_first(fetched.collect())?;
            let row_bytes = self.shape.row_bytes();
            let mut bytes = memory::filled(slots.len() * row_bytes, 0)?;
            for (picked, fetched) in picked.iter().zip(fetched) {
                for (&place, row) in picked.places.iter().zip(fetched.chunks_exact(row_bytes)) {
                    bytes[place * row_bytes..(place + 1) * row_bytes].copy_from_slice(row);
                }
            }
            Ok(bytes)
        })
    }

    /// The slots below the end, device by device; all of them once for replicas.
    pub(super) fn divided_slots(&self) -> Vec<Slots<'_>> {
        let end = self.end as u32;
        match &self.layout {
            None => vec![Box::new(0..end)],
            Some(layout) => (0..self.parts.len())
                .map(|device| Box::new(layout.slots_of(device).take_while(move |&slot| slot < end)) as _)
                .collect(),
        }
    }
}
