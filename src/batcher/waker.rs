//! Waker cells: each wakes one caller.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::interrupt;
use crate::lock::lock;

/// Wakes the caller that was polled last. What the caller is woken for is written before the cell wakes it.
#[derive(Debug, Default)]
pub(super) struct WakerCell(Mutex<Option<Waker>>);

impl WakerCell {
    /// The next wake wakes this task.
    pub(super) fn set(&self, waker: &Waker) {
        let mut waker = Some(waker.clone());
        std::mem::swap(&mut *lock(&self.0), &mut waker);
        // The former waker is dropped without the lock: a task may go with it.
    }

    fn wake(&self) {
        let waker = lock(&self.0).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Wakes all cells. No lock may be held: an executor may poll inside of `wake`.
pub(super) fn wake_all(cells: &[Arc<WakerCell>]) {
    let _disarmed = interrupt::disarmed();
    cells.iter().for_each(|cell| cell.wake());
}
