//! Lowers each query's threshold to the k-th smallest upper end of its candidates, and drops candidates above it.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, Snippet, buffers, params, wgsl};
use crate::kernels::keys::KEYS;

params! {
    pub struct Params {
        queries: u32,
        /// Neighbours wanted.
        k: u32,
        /// Candidates that a list can have.
        capacity: u32,
        /// Candidates of all lists.
        plane: u32,
        /// 1: there are no thresholds yet, and no query has too many candidates.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("tighten")
    .library(&[KEYS, GRID, DIGITS])
    .source(wgsl!("screen/tighten", ROUNDED_BITS))
    .buffers(BUFFERS)
    .overrides(&[("EXACT", &[0, 1]), RADIX])
    .workgroup(256, (2048 + SHORT) * 4 + 8 + 3 * 4);

/// The key of a rank, by its digits.
pub(crate) const DIGITS: Snippet = wgsl!("lib/screen/digits", SHORT);

/// The override constant of kernels that find a k-th smallest key: 0 for a k up to [`FEW`], whose form compiles sooner and takes little
/// workgroup memory, and 1 for a larger one.
pub(crate) const RADIX: (&str, &[u32]) = ("RADIX", &[0, 1]);

/// The value of [`RADIX`] for a k.
pub(crate) fn radix(k: u32) -> u32 {
    (k > FEW).into()
}

buffers! {
    /// The candidates of a search. Without thresholds yet, `thresholds` and `overflowed` are overwritten.
    pub(crate) struct Buffers<'a> {
        thresholds: Write BufferSlice<'a>,
        counts: Write BufferSlice<'a>,
        candidates: Write BufferSlice<'a>,
        overflowed: Write BufferSlice<'a>,
        /// Keys of the distances that will be reported, `[queries, capacity]`, which replace the intervals; or any buffer.
        exact: Read &'a Buffer,
    }
}

impl Params {
    pub(crate) fn new(queries: u32, k: u32, (capacity, plane): (u32, u32), is_first: bool) -> Self {
        Self { queries, k, capacity, plane, is_first: is_first.into() }
    }
}

/// Records the kernel. `is_exact` if there are keys of exact distances.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    is_exact: bool,
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[is_exact.into(), radix(params.k)])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// Invocations, each of which takes the least of its own upper ends.
pub(crate) const SHORT: u32 = 256;
/// Up to this k, the k-th smallest of those is found, for up to an eighth of [`SHORT`] of the lesser one of two each: some of the k
/// smallest upper ends may share invocations, so that it is a little larger than the k-th smallest of all.
pub(crate) const FEW: u32 = 64;
/// For a larger k, the highest 22 bits are found, and the others set.
pub(crate) const ROUNDED_BITS: u32 = (1 << 10) - 1;

/// A threshold from the upper ends of a list: at least k of them are not above it. `is_few` if each invocation, or two of them, takes its
/// least one.
pub(crate) fn threshold_of(uppers: &[u32], k: usize, is_few: bool) -> Option<u32> {
    let each = if k <= SHORT as usize / 8 { SHORT / 2 } else { SHORT } as usize;
    let mut ranked = match is_few {
        true => {
            (0..each).filter_map(|first| uppers.iter().skip(first).step_by(each).copied().min()).collect()
        }
        false => uppers.to_vec(),
    };
    ranked.sort_unstable();
    ranked.get(k - 1).map(|&upper| if is_few { upper } else { upper | ROUNDED_BITS })
}

/// The threshold and the slots that stay, from `(slot, lower key, upper key)`.
pub fn reference(threshold: u32, list: &[(u32, u32, u32)], k: usize) -> (u32, Vec<u32>) {
    let uppers: Vec<u32> = list.iter().map(|entry| entry.2).collect();
    let is_few = k <= FEW as usize || uppers.len() <= SHORT as usize;
    let threshold = threshold_of(&uppers, k, is_few).map_or(threshold, |upper| threshold.min(upper));
    (threshold, list.iter().filter(|entry| entry.1 <= threshold).map(|entry| entry.0).collect())
}
