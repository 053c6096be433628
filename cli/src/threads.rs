//! Work in pieces, shared out over threads.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Threads at most. Each takes memory, and systems give a program some thousands.
const MOST: usize = 1024;

/// Reads how many threads to work with.
pub(crate) fn count(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        _ => bail!("needed a whole number from 1 to {MOST}"),
    }
}

/// How many threads to work with where nobody says.
pub(crate) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on every item, on so many threads at most. Each thread takes the next item when it is done with one, so
/// who works on an item is left to chance: what comes out must not depend on it.
pub(crate) fn for_each<T, I>(threads: usize, items: I, work: impl Fn(T) + Sync)
where
    T: Send,
    I: IntoIterator<Item = T>,
    I::IntoIter: ExactSizeIterator + Send,
{
    let items = items.into_iter();
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.for_each(work);
    }
    let queue = Mutex::new(items);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}
