//! What callers ask for.

use crate::future::Boxed;

/// Searches of this many queries use the device well without others.
pub(crate) const MANY: usize = 256;

/// The most queries of a batch: more are hardly faster.
pub(super) const MOST: usize = 1024;

/// The most elements of a batch's queries, of which it has a copy: those of 1,024 queries of 4,096.
pub(super) const MOST_VALUES: usize = 1 << 22;

/// What searches have in common that can run as one.
pub(crate) trait Kind: Copy + PartialEq + Send + Sync + 'static {}

impl<K: Copy + PartialEq + Send + Sync + 'static> Kind for K {}

/// A search that can wait for others.
pub(crate) struct Request<K> {
    pub(crate) kind: K,
    /// In f32, one after another. They were checked: nothing about them can make a search fail.
    pub(crate) values: Vec<f32>,
    /// How many there are.
    pub(crate) queries: usize,
    /// Whether the caller's thread does nothing else until the search is done.
    pub(crate) is_blocking: bool,
}

/// Runs a batch, given its kind, all queries, and the number of queries of each waiter. It gives an answer for each waiter.
pub(crate) type Run<'r, K, A> = &'r (dyn Fn(K, Vec<f32>, Vec<usize>) -> Boxed<'static, Vec<A>> + Sync);
