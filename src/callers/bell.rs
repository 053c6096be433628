//! Bells: each wakes one caller.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::interrupt;
use crate::lock::lock;

/// Wakes the caller that was polled last. What the caller is woken for is written before the bell rings.
#[derive(Debug, Default)]
pub(super) struct Bell(Mutex<Option<Waker>>);

impl Bell {
    /// The next ring wakes this task.
    pub(super) fn set(&self, waker: &Waker) {
        let mut waker = Some(waker.clone());
        std::mem::swap(&mut *lock(&self.0), &mut waker);
        // The former waker is dropped without the lock: a task may go with it.
    }

    fn ring(&self) {
        let waker = lock(&self.0).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Rings all bells. No lock may be held: an executor may poll inside of `wake`.
pub(super) fn ring(bells: &[Arc<Bell>]) {
    let _disarmed = interrupt::disarmed();
    bells.iter().for_each(|bell| bell.ring());
}
