//! Lowers each query's threshold to the k-th smallest upper bound on its list, and thins the list.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::keys::KEYS;
use crate::matrix::ElementKind;

params! {
    /// Parameters of `tighten`.
    pub struct Params {
        /// Queries.
        queries: u32,
        /// Neighbours wanted.
        k: u32,
        /// Entries of a list.
        capacity: u32,
        /// Entries of all lists.
        plane: u32,
        /// 1: there are no thresholds yet, and no list has overflowed.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("tighten")
    .source(&[KEYS, wgsl!("lib/grid"), wgsl!("screen/tighten", SHORT, ROUNDED_BITS)])
    .buffers(&[
        ("thresholds", Access::Write),
        ("counts", Access::Write),
        ("lists", Access::Write),
        ("overflowed", Access::Write),
        ("exact", Access::Read),
    ])
    .overrides(&[("EXACT", &[0, 1])])
    .workgroup(256, (2048 + 512) * 4 + 8 + 3 * 4);

/// The lists of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tighten<'a> {
    pub(crate) thresholds: &'a Buffer,
    pub(crate) counts: &'a Buffer,
    pub(crate) lists: &'a Buffer,
    pub(crate) overflowed: &'a Buffer,
    /// Keys of the distances that will be reported, `[queries, capacity]`; they replace the intervals.
    pub(crate) exact: Option<&'a Buffer>,
    /// Any other buffer, bound if there are no exact keys.
    pub(crate) unused: &'a Buffer,
    pub(crate) queries: u32,
    pub(crate) k: u32,
    pub(crate) capacity: u32,
    /// Whether there are no thresholds yet and no list has overflowed; those buffers are then overwritten.
    pub(crate) is_first: bool,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, tighten: &Tighten<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[tighten.exact.is_some().into()])?;
    let params = Params {
        queries: tighten.queries,
        k: tighten.k,
        capacity: tighten.capacity,
        plane: tighten.queries * tighten.capacity,
        is_first: tighten.is_first.into(),
    };
    let buffers = [
        tighten.thresholds.into(),
        tighten.counts.into(),
        tighten.lists.into(),
        tighten.overflowed.into(),
        tighten.exact.unwrap_or(tighten.unused).into(),
    ];
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(tighten.queries.into()))
}

/// Lists of up to this many entries get exactly the k-th smallest upper end.
const SHORT: u32 = 512;
/// Of longer lists the highest 22 bits are found, and the others set.
const ROUNDED_BITS: u32 = (1 << 10) - 1;

/// The threshold and the slots that stay, from `(slot, lower key, upper key)`.
pub fn reference(threshold: u32, list: &[(u32, u32, u32)], k: usize) -> (u32, Vec<u32>) {
    let mut uppers: Vec<u32> = list.iter().map(|entry| entry.2).collect();
    uppers.sort_unstable();
    let rounded = |upper: u32| if list.len() > SHORT as usize { upper | ROUNDED_BITS } else { upper };
    let threshold = uppers.get(k - 1).map_or(threshold, |&upper| threshold.min(rounded(upper)));
    (threshold, list.iter().filter(|entry| entry.1 <= threshold).map(|entry| entry.0).collect())
}
