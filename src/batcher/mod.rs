//! Callers of one index share searches: what arrives while the device works is searched together.
//!
//! There is no timer and no thread. A caller who finds no search in flight starts at once and alone. Others wait in a queue. When the
//! device is done with a search, one of those who wait takes the lead: it joins everybody whose search is of the same kind into a
//! batch, runs it, and puts each share of the answer where its caller picks it up.
//!
//! No caller depends on another being polled:
//! - A slot in flight is free as soon as the device is done, whether or not the future of that search is polled again.
//! - Everybody who waits may take the lead. A blocking call is asked first, because its thread is sure to run.
//! - A batch that a blocking call leads is run by that call, whose thread does not leave before the end. Any other batch belongs to all
//!   of its waiters: each waiter that is polled drives it on, so a leader that is dropped or never polled again holds up nobody.
//! - A batch that fails or panics gives no answers: its waiters search by themselves, and each has an error of its own.

mod batch;
mod entry;
mod queue;
mod request;
mod slot;
#[cfg(test)]
mod tests;
mod waiter;
mod waiting;
mod waker;

pub(crate) use entry::Batcher;
pub(crate) use request::{MANY, Request};
