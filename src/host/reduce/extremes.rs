//! The smallest number, the largest, their places, and the largest magnitude.

use crate::elements::Elements;
use crate::host::reduce::fold::{Fold, NOWHERE, ROWS};
use crate::host::reduce::place::first_place;
use crate::kernels::reduce_blocks::Operation;

/// The smallest number, or the largest: its key, or its place in the row.
pub(super) struct Extremum<const IS_LARGEST: bool, const IS_PLACE: bool>;

impl<const IS_LARGEST: bool, const IS_PLACE: bool> Fold for Extremum<IS_LARGEST, IS_PLACE> {
    type Lane = f32;
    // The number that every other one is at least as good as.
    const EMPTY: f32 = if IS_LARGEST { f32::NEG_INFINITY } else { f32::INFINITY };
    const PADDING: f32 = Self::EMPTY;

    #[inline(always)]
    fn step(lane: f32, a: f32, _: f32) -> f32 {
        Self::join(lane, a)
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        // Comparisons with NaN are false.
        let is_better = if IS_LARGEST { other > one } else { other < one };
        if is_better { other } else { one }
    }

    #[inline(always)]
    fn result(lane: f32, row: Elements<'_>) -> u64 {
        if IS_PLACE {
            return first_place(lane, row);
        }
        let is_empty = lane == Self::EMPTY && first_place(lane, row) == NOWHERE;
        let operation = if IS_LARGEST { Operation::Max } else { Operation::Min };
        operation.key(if is_empty { f32::NAN } else { lane }).into()
    }

    #[inline(always)]
    fn places(lanes: &[f32; ROWS], columns: &[[f32; ROWS]]) -> Option<[u32; ROWS]> {
        if !IS_PLACE {
            return None;
        }
        let mut places = [u32::MAX; ROWS];
        // Backwards, so that the first place is set last.
        for (place, column) in columns.iter().enumerate().rev() {
            for row in 0..ROWS {
                places[row] = if column[row] == lanes[row] { place as u32 } else { places[row] };
            }
        }
        Some(places)
    }
}

/// The largest magnitude by its bits, NaN above all numbers.
pub(super) struct LargestMagnitude;

impl Fold for LargestMagnitude {
    type Lane = i32;
    const EMPTY: i32 = 0;
    const PADDING: f32 = 0.0;

    #[inline(always)]
    fn step(lane: i32, a: f32, _: f32) -> i32 {
        Self::join(lane, (a.to_bits() & 0x7fff_ffff) as i32)
    }

    #[inline(always)]
    fn join(one: i32, other: i32) -> i32 {
        if other > one { other } else { one }
    }

    #[inline(always)]
    fn result(lane: i32, _: Elements<'_>) -> u64 {
        Operation::MaxAbs.key(f32::from_bits(lane as u32)).into()
    }
}
