//! The rows of an index on several devices: how they change.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::bits::Bits;
use crate::elements::{Element, HostVectors, with_type};
use crate::engine::device::engine::Engine;
use crate::engine::rows::device_rows::{DeviceRows, RowChange};
use crate::engine::rows::outgrown;
use crate::engine::rows::shape::{Kept, RowShape};
use crate::engine::rows::write::Placing;
use crate::engine::spread::devices::Devices;
use crate::engine::spread::layout::Layout;
use crate::engine::spread::merging::all_or_first;
use crate::engine::spread::shares::{Sent, Share, shares};
use crate::engine::spread::timing;
use crate::engine::spread::together::{Work, together};
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::gpu::words;
use crate::memory;
use crate::options::placement::Placement;

/// Rows on several devices.
///
/// A change is prepared on all of them, and then taken over by steps that cannot fail: all devices have it, or none.
#[derive(Debug)]
pub(crate) struct SpreadRows {
    pub(super) devices: Devices,
    pub(super) parts: Vec<DeviceRows>,
    pub(super) placement: Placement,
    pub(super) shape: RowShape,
    /// Where slots lie; with replicas they lie everywhere.
    pub(super) layout: Option<Layout>,
    /// The slots of the index that have a row; none if all have.
    alive: Option<Bits>,
    end: usize,
    /// The devices that are lost.
    lost: Vec<AtomicBool>,
    /// How many searches run on each device.
    pub(super) busy: Vec<AtomicUsize>,
}

/// Where the rows of a change go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// To the rows so far.
    There,
    /// To the host, with the rows so far.
    ToHost,
    /// The rows so far go to the host without them.
    LeaveAlone,
}

/// How rows are to lie on devices.
pub(super) struct Plan {
    placement: Placement,
    /// The rows of the index, and those of each device.
    shape: RowShape,
    pub(super) own: RowShape,
    pub(super) layout: Option<Layout>,
}

impl Plan {
    pub(super) async fn new(devices: &Devices, placement: Placement, shape: &RowShape) -> Result<Self> {
        let list = devices.list();
        let layout = match (list, placement) {
            ([_], _) | (_, Placement::Replicas) => None,
            (_, Placement::Shards) => Some(Layout::new(timing::shares(list).await?)),
        };
        let share =
            if layout.is_some() { shape.expected.div_ceil(list.len() as u64) } else { shape.expected };
        let own = RowShape { expected: share, ..*shape };
        let kept = outgrown::first_of(list, &own);
        let (shape, own) = (RowShape { kept, ..*shape }, RowShape { kept, ..own });
        Ok(Self { placement, shape, own, layout })
    }

    /// Whether there is another place for the rows than the one that had too little memory; the plan is then for that.
    pub(super) fn moves_on(&mut self) -> bool {
        let next = outgrown::next(&self.own);
        next.into_iter().for_each(|kept| (self.shape.kept, self.own.kept) = (kept, kept));
        next.is_some()
    }
}

impl SpreadRows {
    pub(super) fn new<'f>(
        devices: &'f Devices,
        placement: Placement,
        shape: &'f RowShape,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            let plan = Plan::new(devices, placement, shape).await?;
            let mut parts = vec![];
            for device in devices.list() {
                parts.push(DeviceRows::new(device, &plan.own).await?);
            }
            Ok(Self::of(devices, plan, parts, (0, None)))
        })
    }

    /// The rows of these devices, with their end and the slots that have one.
    pub(super) fn of(
        devices: &Devices,
        plan: Plan,
        parts: Vec<DeviceRows>,
        (end, alive): (usize, Option<Bits>),
    ) -> Self {
        let Plan { placement, shape, layout, .. } = plan;
        let lost = parts.iter().map(|_| AtomicBool::new(false)).collect();
        let busy = parts.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { devices: devices.clone(), parts, placement, shape, layout, alive, end, lost, busy }
    }

    pub(super) fn engine(&self, place: usize) -> Engine {
        self.devices.list()[place].engine.clone()
    }

    /// The places of the devices that have up-to-date rows.
    pub(super) fn live(&self) -> Vec<usize> {
        let is_lost = |place: &usize| self.lost[*place].load(Ordering::Relaxed);
        (0..self.parts.len()).filter(|place| !is_lost(place)).collect()
    }

    /// The devices that take part in a change, with their places: all shards, or the replicas that are left.
    fn changing(&mut self) -> Result<Vec<(usize, Engine, &mut DeviceRows)>> {
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

    pub(super) fn alive(&self) -> Option<&Bits> {
        self.alive.as_ref()
    }

    pub(super) fn end(&self) -> u64 {
        self.end as u64
    }

    pub(super) fn len(&self) -> u64 {
        self.alive.as_ref().map_or(self.end, Bits::count_ones) as u64
    }

    /// Puts rows into slots that have none, and frees others.
    pub(super) fn put<'f>(
        &'f mut self,
        rows: HostVectors<'f>,
        placing: &'f Placing<'f>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let after = Bits::after(self.alive.as_ref(), self.end, placing.slots, placing.freed)?;
            let most = placing.slots.iter().max().map_or(0, |&slot| u64::from(slot) + 1);
            Error::check_slots(most)?;
            let mut layout = self.layout.clone();
            layout.iter_mut().for_each(|layout| layout.reach(most));
            let shares = match &layout {
                Some(layout) => shares(layout, rows, placing)?,
                None => self.parts.iter().map(|_| Share::of_all(rows, placing)).collect(),
            };
            let owns: Vec<(&Share<'_>, Placing<'_>)> =
                shares.iter().map(|share| (share, share.placing())).collect();
            let sent = Sent::new(self.parts.len(), layout.is_some(), progress);
            match self.put_owns(&owns, &sent, Step::There).await {
                // Distances of the host and of GPUs differ in the last bits, so the rows of all devices go together.
                Err(error) if self.parts.iter().any(|part| part.outgrow(&error)) => {
                    match self.put_owns(&owns, &sent, Step::ToHost).await {
                        // As on one device: without the rows there may be room for the new ones' copy.
                        Err(Error::OutOfMemory { .. }) => {
                            self.put_owns(&owns, &sent, Step::LeaveAlone).await?;
                            // Where rows are on the host, this streams them if there is none.
                            self.put_owns(&owns, &sent, Step::ToHost).await?;
                        }
                        done => done?,
                    }
                }
                done => done?,
            }
            self.layout = layout;
            (self.end, self.alive) = after;
            Ok(())
        })
    }

    /// Puts the rows of each device into its slots; on all of them or, after an error, on none.
    async fn put_owns<'a>(
        &mut self,
        owns: &'a [(&'a Share<'a>, Placing<'a>)],
        sent: &Sent<'_>,
        step: Step,
    ) -> Result<()> {
        if step != Step::There {
            // Each device sees what the host has free, and not what the others take of it.
            let moving = self.parts.iter().filter(|part| !part.is_hybrid());
            let rows = moving.map(DeviceRows::len).sum::<u64>();
            outgrown::check_host_room(rows * self.shape.row_bytes() as u64)?;
        }
        let mut places = vec![];
        let mut works: Vec<Work<'_, RowChange<'_>>> = vec![];
        for (place, engine, part) in self.changing()? {
            let (share, placing) = &owns[place];
            if step == Step::There && placing.slots.is_empty() && placing.freed.is_empty() {
                continue;
            }
            let work = async move {
                let mut progress = |rows| sent.note(place, rows);
                let new = (!placing.slots.is_empty()).then(|| (share.rows.vectors(), placing));
                let prepared = match (step, new) {
                    (Step::There, Some((rows, _))) => {
                        part.prepared_put(rows.into(), placing, &mut progress).await
                    }
                    (Step::There, None) => part.prepared_release(placing.freed).await,
                    (Step::ToHost, _) => part.prepared_on_host(new, placing.freed, &mut progress).await,
                    (Step::LeaveAlone, _) => part.prepared_on_host(None, &[], &mut progress).await,
                };
                prepared.map_err(|error| error.with_rows(|row| share.number(row)))
            };
            places.push(place);
            works.push((engine, Box::pin(work)));
        }
        let prepared = together(works).await;
        if let Some(panic) = sent.panic() {
            for (place, one) in places.into_iter().zip(prepared) {
                one.iter().for_each(|change| self.parts[place].undo(change));
            }
            resume_unwind(panic);
        }
        self.take_over(places, prepared)?;
        let is_there = |kept: Kept| match kept {
            Kept::OnDevice | Kept::Auto => !self.parts.iter().any(DeviceRows::is_hybrid),
            Kept::Hybrid => !self.parts.iter().any(DeviceRows::is_streamed),
            Kept::Streamed => true,
        };
        let mut shape = self.shape;
        while let (Step::ToHost | Step::LeaveAlone, false, Some(kept)) =
            (step, is_there(shape.kept), outgrown::next(&shape))
        {
            // A device that is recovered has its rows in the same place.
            shape.kept = kept;
        }
        self.shape = shape;
        Ok(())
    }

    pub(super) fn release<'f>(&'f mut self, freed: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(self.leave(freed, None))
    }

    pub(super) fn relocate<'f>(&'f mut self, from: &'f [u32], to: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(self.leave(from, Some(to)))
    }

    /// Removes the rows in these slots, or moves them, with their ids, to slots of the same device that have none.
    async fn leave(&mut self, from: &[u32], to: Option<&[u32]>) -> Result<()> {
        let after = Bits::after(self.alive.as_ref(), self.end, to.unwrap_or_default(), from)?;
        let (own_from, own_to) = (self.divided(from), to.map(|to| self.divided(to)));
        if let (Some(layout), Some(to)) = (&self.layout, to)
            && from.iter().zip(to).any(|(&from, &to)| layout.place(from).0 != layout.place(to).0)
        {
            return Err(Error::internal("rows that move from one device to another"));
        }
        let mut places = vec![];
        let mut works: Vec<Work<'_, RowChange<'_>>> = vec![];
        for (place, engine, part) in self.changing()? {
            let from = &own_from[place];
            if from.is_empty() {
                continue;
            }
            places.push(place);
            works.push(match &own_to {
                Some(to) => (engine, part.prepared_move(from, &to[place])),
                None => (engine, Box::pin(async move { part.prepared_release(from).await })),
            });
        }
        let prepared = together(works).await;
        self.take_over(places, prepared)?;
        (self.end, self.alive) = after;
        Ok(())
    }

    /// The slots of a list on each device, where they lie there.
    fn divided(&self, slots: &[u32]) -> Vec<Vec<u32>> {
        match &self.layout {
            Some(layout) => layout.picked(slots).into_iter().map(|picked| picked.slots).collect(),
            None => self.parts.iter().map(|_| slots.to_vec()).collect(),
        }
    }

    /// Takes a change over where all devices have prepared it, and gives it up where one could not. Replicas that were lost meanwhile are
    /// left behind.
    fn take_over(&mut self, places: Vec<usize>, prepared: Vec<Result<RowChange<'_>>>) -> Result<()> {
        let prepared: Vec<(usize, Result<RowChange<'_>>)> =
            places.into_iter().zip(prepared).map(|(place, one)| (place, self.noted(place, one))).collect();
        let is_survived =
            self.placement == Placement::Replicas && prepared.iter().any(|(_, one)| one.is_ok());
        let is_fatal = |one: &Result<RowChange<'_>>| match one {
            Ok(_) => false,
            Err(Error::DeviceLost { .. }) => !is_survived,
            Err(_) => true,
        };
        let has_failed = prepared.iter().any(|(_, one)| is_fatal(one));
        let mut errors = vec![];
        for (place, one) in prepared {
            match one {
                Ok(change) if has_failed => self.parts[place].undo(&change),
                Ok(change) => self.parts[place].apply(change)?,
                Err(error) if has_failed => errors.push(Err(error)),
                Err(_) => {}
            }
        }
        all_or_first::<()>(errors).map(drop)
    }

    pub(super) fn shrink(&mut self) -> Result<()> {
        let live = self.live();
        live.into_iter().try_for_each(|place| self.parts[place].shrink())
    }

    pub(super) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        let bytes = self.fetch_bytes(slots).await?;
        with_type!(self.shape.elements, T => memory::collect(words::<T>(&bytes).map(Element::widen)))
    }

    pub(super) fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move {
            let Some(layout) = &self.layout else {
                let &place = self.live().first().ok_or_else(|| self.none_left())?;
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

    /// The device of a slot; the first for replicas, whose slots lie everywhere.
    pub(super) fn device_of(&self, slot: u32) -> usize {
        self.layout.as_ref().map_or(0, |layout| layout.place(slot).0)
    }

    /// The slots below the end, device by device; all of them once for replicas.
    pub(super) fn slots_by_device(&self) -> Vec<Box<dyn Iterator<Item = u32> + '_>> {
        let end = self.end as u32;
        match &self.layout {
            None => vec![Box::new(0..end)],
            Some(layout) => (0..self.parts.len())
                .map(|device| Box::new(layout.slots_of(device).take_while(move |&slot| slot < end)) as Box<_>)
                .collect(),
        }
    }
}
