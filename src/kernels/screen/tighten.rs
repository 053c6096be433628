//! Lowers each query's threshold to the k-th smallest upper end of its candidates, and drops candidates above it.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, Snippet, buffers, params, wgsl};
use crate::kernels::keys::KEYS;

params! {
    pub struct Params {
        queries: u32,
        /// Neighbours wanted.
        k: u32,
        /// Candidates that a query can have.
        capacity: u32,
        /// Candidates of all queries.
        plane: u32,
        /// 1: there are no thresholds yet, and no query has too many candidates.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("tighten")
    .library(&[KEYS, GRID, DIGITS])
    .source(wgsl!("screen/tighten", SHORT, ROUNDED_BITS))
    .buffers(BUFFERS)
    .overrides(&[("EXACT", &[0, 1])])
    .workgroup(256, (2048 + SHORT) * 4 + 8 + 3 * 4);

/// The key of a rank, by its digits.
pub(crate) const DIGITS: Snippet = wgsl!("lib/screen/digits", SHORT);

buffers! {
    /// The candidates of a search. Without thresholds yet, `thresholds` and `overflowed` are overwritten.
    pub(crate) struct Buffers<'a> {
        thresholds: Write BufferSlice<'a>,
        counts: Write BufferSlice<'a>,
        candidates: Write &'a Buffer,
        overflowed: Write BufferSlice<'a>,
        /// Keys of the distances that will be reported, `[queries, capacity]`, which replace the intervals; or any buffer.
        exact: Read &'a Buffer,
    }
}

impl Params {
    pub(crate) fn new(queries: u32, k: u32, capacity: u32, is_first: bool) -> Self {
        Self { queries, k, capacity, plane: queries * capacity, is_first: is_first.into() }
    }
}

/// Records the kernel. `is_exact` if there are keys of exact distances.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    is_exact: bool,
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[is_exact.into()])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// Among up to this many candidates, exactly the k-th smallest upper end is found.
pub(crate) const SHORT: u32 = 256;
/// Among more, its highest 22 bits are found, and the others set.
pub(crate) const ROUNDED_BITS: u32 = (1 << 10) - 1;

/// The threshold and the slots that stay, from `(slot, lower key, upper key)`.
pub fn reference(threshold: u32, list: &[(u32, u32, u32)], k: usize) -> (u32, Vec<u32>) {
    let mut uppers: Vec<u32> = list.iter().map(|entry| entry.2).collect();
    uppers.sort_unstable();
    let rounded = |upper: u32| if list.len() > SHORT as usize { upper | ROUNDED_BITS } else { upper };
    let threshold = uppers.get(k - 1).map_or(threshold, |&upper| threshold.min(rounded(upper)));
    (threshold, list.iter().filter(|entry| entry.1 <= threshold).map(|entry| entry.0).collect())
}
