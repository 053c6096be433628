//! The share of each device in a change of an index.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::device::vectors::Vectors;
use crate::engine::rows::write::Placing;
use crate::engine::spread::layout::Layout;
use crate::error::Result;
use crate::future::RowProgress;
use crate::lock::lock;
use crate::matrix::Matrix;
use crate::memory;
use crate::vectors::HostVectors;

/// Rows of a change that one device gets.
pub(super) enum Own<'a> {
    /// They follow each other.
    Slice(HostVectors<'a>),
    Copied(Matrix),
}

impl Own<'_> {
    pub(super) fn vectors(&self) -> Vectors<'_> {
        match self {
            Self::Slice(rows) => (*rows).into(),
            Self::Copied(rows) => rows.into(),
        }
    }
}

/// The rows that one device gets, and those that it loses.
pub(super) struct Share<'a> {
    pub(super) rows: Own<'a>,
    /// The number of each row in the call.
    pub(super) numbers: Vec<usize>,
    pub(super) slots: Vec<u32>,
    pub(super) ids: Vec<u64>,
    pub(super) freed: Vec<u32>,
}

impl Share<'_> {
    pub(super) fn placing(&self) -> Placing<'_> {
        Placing { slots: &self.slots, ids: &self.ids, freed: &self.freed }
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
        let ids = memory::collect(filled.places.iter().map(|&place| placing.ids[place]))?;
        let (numbers, slots, freed) = (filled.places, filled.slots, freed.slots);
        shares.push(Share { rows: own, numbers, slots, ids, freed });
    }
    Ok(shares)
}

/// The rows with these numbers, which ascend.
pub(super) fn rows_at<'a>(rows: HostVectors<'a>, numbers: &[usize]) -> Result<Own<'a>> {
    let first = numbers.first().copied().unwrap_or(0);
    let end = numbers.last().map_or(first, |last| last + 1);
    if end - first == numbers.len() {
        return Ok(Own::Slice(rows.slice(first..end)));
    }
    Ok(Own::Copied(rows.chosen(numbers)?))
}

/// Rows that devices have sent so far, and the function that is told their sum or, where all send the same, the most. What the function
/// panics with is kept until every device can undo its part of the change.
pub(super) struct Sent<'p> {
    counts: Vec<AtomicUsize>,
    is_sum: bool,
    progress: Mutex<RowProgress<'p>>,
    panic: Mutex<Option<Panic>>,
}

type Panic = Box<dyn Any + Send>;

impl<'p> Sent<'p> {
    /// Devices send different rows, whose sum is told, or all of them the same.
    pub(super) fn new(devices: usize, is_sum: bool, progress: RowProgress<'p>) -> Self {
        let counts = (0..devices).map(|_| AtomicUsize::new(0)).collect();
        Self { counts, is_sum, progress: Mutex::new(progress), panic: Mutex::default() }
    }

    pub(super) fn note(&self, device: usize, sent: usize) {
        // A device that begins anew has told it before.
        self.counts[device].fetch_max(sent, Ordering::Relaxed);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let told = if self.is_sum { counts.sum() } else { counts.max().unwrap_or(0) };
        let mut panic = lock(&self.panic);
        if panic.is_none() {
            *panic = catch_unwind(AssertUnwindSafe(|| (lock(&self.progress))(told))).err();
        }
    }

    /// What the function panicked with.
    pub(super) fn panic(&self) -> Option<Panic> {
        lock(&self.panic).take()
    }
}
