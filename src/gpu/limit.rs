//! The limit of the bytes that the rows of indexes hold on a device: a GPU, or the host as an engine.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::state::lock;
use crate::error::{Error, Result};

/// Bytes that rows hold on a device, and how many they may. Buffers come and go with [`Share`]s of them.
#[derive(Debug)]
pub(crate) struct Limit {
    held: Mutex<u64>,
    bytes: u64,
}

/// Bytes of some buffers, given back when the last clone of these is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    limit: Arc<Limit>,
    bytes: u64,
    /// Whether a [`Loan`] has given the bytes back already.
    is_lent: AtomicBool,
}

/// Shares whose bytes others may take, because their buffers are about to be dropped. If this is dropped instead, they hold them again.
#[derive(Debug, Default)]
pub(crate) struct Loan(Vec<Arc<Share>>);

impl Limit {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { held: Mutex::new(0), bytes }
    }

    /// Bytes that can still be taken.
    pub(crate) fn free(&self) -> u64 {
        self.bytes.saturating_sub(*lock(&self.held))
    }

    /// Returns a share of no bytes, to be resized.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { limit: self.clone(), bytes: 0, is_lent: AtomicBool::new(false) }
    }

    /// Takes bytes, before their buffers are made.
    pub(crate) fn take(self: &Arc<Self>, purpose: impl FnOnce() -> String, bytes: u64) -> Result<Arc<Share>> {
        let mut share = self.share();
        share.resize(purpose, bytes)?;
        Ok(Arc::new(share))
    }
}

impl Share {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes bytes beside those that others hold, in place of this share's own. An error changes nothing. Fewer bytes are never refused.
    pub(crate) fn resize(&mut self, purpose: impl FnOnce() -> String, bytes: u64) -> Result<()> {
        let mut held = lock(&self.limit.held);
        let others = *held - self.bytes;
        if bytes > self.bytes && others.checked_add(bytes).is_none_or(|all| all > self.limit.bytes) {
            let (purpose, limit) = (purpose(), self.limit.bytes);
            return Err(Error::MemoryLimit { purpose, needed: bytes, held: others, limit });
        }
        (*held, self.bytes) = (others + bytes, bytes);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !*self.is_lent.get_mut() {
            *lock(&self.limit.held) -= self.bytes;
        }
    }
}

impl Loan {
    /// Lends shares that are not lent yet.
    pub(crate) fn new(shares: impl Iterator<Item = Arc<Share>>) -> Self {
        let lent = |share: &Arc<Share>| {
            let mut held = lock(&share.limit.held);
            let is_new = !share.is_lent.swap(true, Ordering::Relaxed);
            if is_new {
                *held -= share.bytes;
            }
            is_new
        };
        Self(shares.filter(lent).collect())
    }

    /// Leaves the bytes to those who took them: the buffers are gone.
    pub(crate) fn settle(mut self) {
        mem::take(&mut self.0);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        for share in &self.0 {
            let mut held = lock(&share.limit.held);
            share.is_lent.store(false, Ordering::Relaxed);
            *held += share.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(limit: &Arc<Limit>, bytes: u64) -> Result<Arc<Share>> {
        limit.take(|| "rows".to_owned(), bytes)
    }

    #[test]
    fn shares_are_held_until_their_last_clone_is_gone() {
        let limit = Arc::new(Limit::new(100));
        let one = take(&limit, 60).expect("room");
        let Err(Error::MemoryLimit { needed: 41, held: 60, limit: 100, .. }) = take(&limit, 41) else {
            panic!("too much")
        };
        let clone = one.clone();
        drop(one);
        assert_eq!(limit.free(), 40);
        drop(clone);
        assert_eq!(limit.free(), 100);
        assert!(take(&limit, u64::MAX).is_err() && take(&limit, 100).is_ok());
    }

    #[test]
    fn a_share_grows_beside_others_alone() {
        let limit = Arc::new(Limit::new(100));
        let other = take(&limit, 30).expect("room");
        let mut own = limit.share();
        own.resize(String::new, 60).expect("room");
        let Err(Error::MemoryLimit { needed: 71, held: 30, limit: 100, .. }) = own.resize(String::new, 71)
        else {
            panic!("too much")
        };
        assert_eq!(limit.free(), 10);
        own.resize(String::new, 70).expect("room");
        own.resize(String::new, 5).expect("fewer");
        drop(other);
        assert_eq!(limit.free(), 95);
        drop(own);
        assert_eq!(limit.free(), 100);
    }

    #[test]
    fn a_loan_counts_nothing_twice() {
        let limit = Arc::new(Limit::new(100));
        let before = take(&limit, 80).expect("room");
        let loan = Loan::new([before.clone()].into_iter());
        // A second loan of the same share lends nothing.
        drop(Loan::new([before.clone()].into_iter()));
        assert_eq!(limit.free(), 100);
        drop(loan);
        assert_eq!(limit.free(), 20);
        let loan = Loan::new([before.clone()].into_iter());
        let after = take(&limit, 30).expect("lent");
        drop(before);
        loan.settle();
        assert_eq!(limit.free(), 70);
        drop(after);
        assert_eq!(limit.free(), 100);
    }
}
