//! Elements that a workgroup holds in registers: the snippets that find thresholds among them, and their workgroup memory.

use crate::gpu::{Snippet, wgsl};

/// Rounds of a bisection, at most: two per bit of a key and one per bit of a place, rounded up.
const ROUNDS: u32 = 128;

/// Buckets in which elements are counted.
const BUCKETS: u32 = 512;

/// Invocations that add up the counts of buckets.
const ADDERS: u32 = 32;

/// A threshold among held elements, by bisection.
pub(crate) const HELD: Snippet = wgsl!("lib/select/held", ROUNDS);

/// The same by counting elements in buckets.
pub(crate) const COUNTED: Snippet = wgsl!("lib/select/buckets", BUCKETS, ADDERS);

/// Bytes of workgroup memory of both, except single words.
pub(crate) const HELD_BYTES: u32 = (ROUNDS + BUCKETS + ADDERS) * 4;
