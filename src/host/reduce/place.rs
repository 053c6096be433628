//! The search for the place of a number that is known to be extreme.

use crate::elements::Elements;
use crate::host::reduce::fold::{LANES, NOWHERE};

/// Numbers that are widened at a time: they stay in a core's first-level cache.
pub(super) const PIECE: usize = 2048;

/// The first place of a number; zeros of both signs are equal.
#[inline(always)]
pub(super) fn first_place(number: f32, row: Elements<'_>) -> u64 {
    match row {
        Elements::F32(values) => place_in_f32(number, values).unwrap_or(NOWHERE),
        _ => place_in_pieces(number, row),
    }
}

fn place_in_pieces(number: f32, row: Elements<'_>) -> u64 {
    let mut scratch = [0.0; PIECE];
    for start in (0..row.len()).step_by(PIECE) {
        let piece = row.slice(start..row.len().min(start + PIECE));
        if let Some(place) = place_in_f32(number, piece.widened(&mut scratch)) {
            return start as u64 + place;
        }
    }
    NOWHERE
}

#[inline(always)]
fn place_in_f32(number: f32, values: &[f32]) -> Option<u64> {
    let (chunks, tail) = values.as_chunks::<LANES>();
    for (start, chunk) in (0..).step_by(LANES).zip(chunks) {
        if let Some(lane) = first_lane(number, chunk) {
            return Some(start + lane);
        }
    }
    // The window overlaps chunks that do not hold the number.
    if let Some(window) = values.last_chunk::<LANES>() {
        return first_lane(number, window).map(|lane| (values.len() - LANES) as u64 + lane);
    }
    tail.iter().position(|&value| value == number).map(|place| place as u64)
}

#[inline(always)]
fn first_lane(number: f32, chunk: &[f32; LANES]) -> Option<u64> {
    let mut is_here = false;
    for &value in chunk {
        is_here |= value == number;
    }
    if !is_here {
        return None;
    }
    let mut lanes = [0; LANES];
    for lane in 0..LANES {
        lanes[lane] = if chunk[lane] == number { lane as u32 } else { LANES as u32 };
    }
    for width in [16, 8, 4, 2, 1] {
        for lane in 0..width {
            let other = lanes[lane + width];
            lanes[lane] = if other < lanes[lane] { other } else { lanes[lane] };
        }
    }
    Some(lanes[0].into())
}
