//! The share of each device in a change of an index.

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::elements::HostVectors;
use crate::engine::device::vectors::OnHost;
use crate::engine::rows::write::Placing;
use crate::engine::spread::layout::Layout;
use crate::engine::spread::merging::Counts;
use crate::error::Result;
use crate::future::RowProgress;
use crate::lock::lock;
use crate::memory;

/// The rows that one device gets, and those that it loses.
pub(super) struct Share<'a> {
    pub(super) rows: OnHost<'a>,
    /// The number of each row in the call; none where they are the same.
    numbers: Option<Vec<usize>>,
    slots: Cow<'a, [u32]>,
    ids: Cow<'a, [u64]>,
    freed: Cow<'a, [u32]>,
}

impl<'a> Share<'a> {
    /// The share of a replica.
    pub(super) fn of_all(rows: HostVectors<'a>, placing: &Placing<'a>) -> Self {
        let &Placing { slots, ids, freed } = placing;
        let (slots, ids, freed) = (slots.into(), ids.into(), freed.into());
        Self { rows: OnHost::Borrowed(rows), numbers: None, slots, ids, freed }
    }

    pub(super) fn placing(&self) -> Placing<'_> {
        Placing { slots: &self.slots, ids: &self.ids, freed: &self.freed }
    }

    pub(super) fn number(&self, row: u64) -> u64 {
        self.numbers.as_ref().map_or(row, |numbers| numbers[row as usize] as u64)
    }
}

/// Divides new rows, and the slots that are freed with them, among devices.
pub(super) fn shares<'a>(
    layout: &Layout,
    rows: HostVectors<'a>,
    placing: &Placing<'_>,
) -> Result<Vec<Share<'a>>> {
    let (filled, freed) = (layout.picked(placing.slots), layout.picked(placing.freed));
    let mut shares = vec![];
    for (filled, freed) in filled.into_iter().zip(freed) {
        let own = rows_at(rows, &filled.places)?;
        let ids = memory::collect(filled.places.iter().map(|&place| placing.ids[place]))?.into();
        let (numbers, slots, freed) = (Some(filled.places), filled.slots.into(), freed.slots.into());
        shares.push(Share { rows: own, numbers, slots, ids, freed });
    }
    Ok(shares)
}

/// The rows with these numbers, which ascend.
pub(super) fn rows_at<'a>(rows: HostVectors<'a>, numbers: &[usize]) -> Result<OnHost<'a>> {
    let first = numbers.first().copied().unwrap_or(0);
    let end = numbers.last().map_or(first, |last| last + 1);
    if end - first == numbers.len() {
        return Ok(OnHost::Borrowed(rows.slice(first..end)));
    }
    rows.chosen(numbers).map(OnHost::Owned)
}

/// Rows that devices have sent so far, and the function that is told their sum or, where all send the same, the most. What the function
/// panics with is kept until every device can undo its part of the change.
pub(super) struct Sent<'p> {
    counts: Counts,
    progress: Mutex<RowProgress<'p>>,
    panic: Mutex<Option<Panic>>,
}

type Panic = Box<dyn Any + Send>;

impl<'p> Sent<'p> {
    /// Devices send different rows, whose sum is told, or all of them the same.
    pub(super) fn new(devices: usize, is_sum: bool, progress: RowProgress<'p>) -> Self {
        let of_all: fn(Vec<usize>) -> usize = match is_sum {
            true => |all| all.into_iter().sum(),
            false => |all| all.into_iter().max().unwrap_or(0),
        };
        let counts = Counts::new(devices, of_all);
        Self { counts, progress: Mutex::new(progress), panic: Mutex::default() }
    }

    pub(super) fn note(&self, device: usize, sent: usize) {
        let told = self.counts.note(device, sent);
        let mut panic = lock(&self.panic);
        if panic.is_none() {
            *panic = catch_unwind(AssertUnwindSafe(|| (lock(&self.progress))(told))).err();
        }
    }

    pub(super) fn panic(&self) -> Option<Panic> {
        lock(&self.panic).take()
    }
}
