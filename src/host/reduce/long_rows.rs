//! Folds of rows of at least [`LANES`] numbers: a row's numbers go through all lanes, which are joined at its end.

use crate::elements::Elements;
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::reduce::fold::{Fold, LANES, step};
use crate::host::reduce::place::PIECE;

/// Folds rows of `length` numbers; the last may be shorter. `b` is as long as `a`, and of the same element type.
pub(super) fn fold_rows<F: Fold>(a: Elements<'_>, b: Elements<'_>, length: usize, results: &mut [u64]) {
    if let (Elements::F32(a), Elements::F32(b)) = (a, b) {
        return fold_f32::<F>(a, b, length, results);
    }
    let mut scratch = [[0.0; PIECE]; 2];
    if length <= PIECE {
        let at_once = PIECE / length;
        for (number, results) in results.chunks_mut(at_once).enumerate() {
            let start = number * at_once * length;
            let range = start..a.len().min(start + results.len() * length);
            let (a, b) = both::<F>([a.slice(range.clone()), b.slice(range)], &mut scratch);
            fold_f32::<F>(a, b, length, results);
        }
        return;
    }
    for (row, result) in results.iter_mut().enumerate() {
        let range = row * length..a.len().min((row + 1) * length);
        let (mut lane, mut start) = (F::EMPTY, range.start);
        while start < range.end {
            let end = range.end.min(start + PIECE);
            let (a, b) = both::<F>([a.slice(start..end), b.slice(start..end)], &mut scratch);
            lane = F::join(lane, fold_piece::<F>(a, b));
            start = end;
        }
        *result = F::result(lane, a.slice(range));
    }
}

/// Both operands in f32; the first twice where the fold reads only one.
fn both<'s, F: Fold>(
    [a, b]: [Elements<'s>; 2],
    [scratch, other_scratch]: &'s mut [[f32; PIECE]; 2],
) -> (&'s [f32], &'s [f32]) {
    let values = a.widened(scratch);
    (values, if F::IS_OF_PAIRS { b.widened(other_scratch) } else { values })
}

/// The last `count` numbers of a row, after padding that changes no lane.
#[inline(always)]
fn last<F: Fold>(row: &[f32], count: usize) -> [f32; LANES] {
    let mut chunk = [F::PADDING; LANES];
    if let Some(window) = row.last_chunk::<LANES>() {
        // A copy whose length is known only at run time would be a call.
        for lane in 0..LANES {
            chunk[lane] = if lane + count >= LANES { window[lane] } else { F::PADDING };
        }
    } else {
        chunk[LANES - count..].copy_from_slice(row);
    }
    chunk
}

/// The lanes of a row, or of a piece of one.
#[inline(always)]
fn lanes_of<F: Fold>(a: &[f32], b: &[f32]) -> [F::Lane; LANES] {
    let mut lanes = [F::EMPTY; LANES];
    let ((chunks, tail), (other_chunks, _)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in chunks.iter().zip(other_chunks) {
        lanes = step::<F>(lanes, a, b);
    }
    // Indexing lanes with an index known only at run time would force them out of their registers.
    if !tail.is_empty() {
        lanes = step::<F>(lanes, &last::<F>(a, tail.len()), &last::<F>(b, tail.len()));
    }
    lanes
}

#[inline(always)]
fn joined<F: Fold>(lanes: [F::Lane; LANES]) -> F::Lane {
    let lanes: [_; 16] = halved::<F, _, _>(lanes);
    let lanes: [_; 8] = halved::<F, _, _>(lanes);
    let lanes: [_; 4] = halved::<F, _, _>(lanes);
    let [one, other] = halved::<F, _, _>(lanes);
    F::join(one, other)
}

/// Joins the upper half of the lanes to the lower half. The result is a new array: writing the old one again would force it out of its
/// registers.
#[inline(always)]
fn halved<F: Fold, const N: usize, const H: usize>(lanes: [F::Lane; N]) -> [F::Lane; H] {
    let mut half = [F::EMPTY; H];
    for lane in 0..H {
        half[lane] = F::join(lanes[lane], lanes[lane + H]);
    }
    half
}

/// Folds rows of f32; the last may be shorter.
fn fold_f32<F: Fold>(a: &[f32], b: &[f32], length: usize, results: &mut [u64]) {
    with_widest_registers(
        #[inline(always)]
        || {
            let mut start = 0;
            for result in results {
                let end = a.len().min(start + length);
                let row = &a[start..end];
                let lanes = lanes_of::<F>(row, &b[start..end]);
                *result = F::result(joined::<F>(lanes), Elements::F32(row));
                start = end;
            }
        },
    );
}

/// The joined lanes of a piece of a row.
fn fold_piece<F: Fold>(a: &[f32], b: &[f32]) -> F::Lane {
    with_widest_registers(
        #[inline(always)]
        || joined::<F>(lanes_of::<F>(a, b)),
    )
}
