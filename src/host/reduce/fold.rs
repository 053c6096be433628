//! A fold: how the numbers of a row become one value, in lanes side by side.
//!
//! A long row goes through all lanes; of short rows each has a lane of its own. Either way a row's order of summation depends on its length
//! alone.

use crate::elements::Elements;

/// Lanes: enough to hide the latency of addition at every register width.
pub(super) const LANES: usize = 32;

/// Short rows that are folded at a time, one in each lane.
pub(super) const ROWS: usize = LANES;

/// The place of a number that does not exist.
pub(super) const NOWHERE: u64 = u64::MAX;

/// How the numbers of a row become one value.
pub(super) trait Fold {
    type Lane: Copy;
    /// Whether it reads a second operand.
    const IS_OF_PAIRS: bool = false;
    /// The value of a lane before the first number.
    const EMPTY: Self::Lane;
    /// The number that leaves a lane as it is.
    const PADDING: f32;
    fn step(lane: Self::Lane, a: f32, b: f32) -> Self::Lane;
    fn join(one: Self::Lane, other: Self::Lane) -> Self::Lane;
    /// The result of a row whose lanes were joined to `lane`.
    fn result(lane: Self::Lane, row: Elements<'_>) -> u64;
    /// The places of the lanes' numbers in their columns, for folds whose results are places.
    #[inline(always)]
    fn places(_lanes: &[Self::Lane; ROWS], _columns: &[[f32; ROWS]]) -> Option<[u32; ROWS]> {
        None
    }
}

/// Takes one number in every lane.
#[inline(always)]
pub(super) fn step<F: Fold>(lanes: [F::Lane; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [F::Lane; LANES] {
    let mut next = lanes;
    for lane in 0..LANES {
        next[lane] = F::step(lanes[lane], a[lane], b[lane]);
    }
    next
}
