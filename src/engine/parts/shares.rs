//! The share of each device in a change of an index.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::engine::parts::layout::Layout;
use crate::engine::parts::merging::Counts;
use crate::engine::rows::edit::Edit;
use crate::error::{Error, Result};
use crate::future::RowProgress;
use crate::lock::lock;
use crate::memory;

/// The part of a change that falls to one device.
pub(super) struct Share<'a> {
    pub(super) edit: Arc<Edit<'a>>,
    /// The number of each row in the call; none where they are the same.
    numbers: Option<Vec<usize>>,
}

impl<'a> Share<'a> {
    /// The share of a replica.
    pub(super) fn of_all(edit: &Arc<Edit<'a>>) -> Self {
        Self { edit: edit.clone(), numbers: None }
    }

    pub(super) fn number(&self, row: u64) -> u64 {
        self.numbers.as_ref().map_or(row, |numbers| numbers[row as usize] as u64)
    }
}

/// Divides a change among devices.
pub(super) fn shares<'a>(layout: &Layout, edit: &Edit<'a>) -> Result<Vec<Share<'a>>> {
    let (filled, freed) = (layout.picked(&edit.filled), layout.picked(&edit.freed));
    if edit.moves() && filled.iter().zip(&freed).any(|(filled, freed)| filled.places != freed.places) {
        return Err(Error::internal("rows that move from one device to another"));
    }
    let mut shares = vec![];
    for (filled, freed) in filled.into_iter().zip(freed) {
        let own = edit.chosen(&filled.places)?;
        let ids = match own {
            Some(_) => memory::collect(filled.places.iter().map(|&place| edit.ids[place]))?,
            None => vec![],
        };
        let edit = Edit::part(own, filled.slots, ids, freed.slots);
        shares.push(Share { edit, numbers: Some(filled.places) });
    }
    Ok(shares)
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
