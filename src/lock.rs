//! Locks that a panic of another thread leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex whose poisoning does not matter: what it guards is whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
