//! Sums of squared deviations from the mean on the host, in f64: first the mean of a piece, then the deviations from it. The spreads of
//! pieces are merged in their order, so the bits depend on the length alone, not on the number of threads.

use crate::parallel::*;

use crate::elements::{Elements, HostVectors};
use crate::error::Result;
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::reduce::fold::LANES;
use crate::host::reduce::place::PIECE;
use crate::host::reduce::records::{BLOCK, FEW, WAITING, by_part};
use crate::interrupt;
use crate::kernels::deviations::Spread;
use crate::memory;

/// The sum of a vector's squared deviations from its mean; of values times `scale`.
pub(crate) fn squared_deviations(scale: f32, values: Elements<'_>) -> Result<f32> {
    let mut waiting = [Spread::default(); WAITING];
    let mut whole = Spread::default();
    for start in (0..values.len()).step_by(WAITING * BLOCK) {
        interrupt::check()?;
        let some = values.slice(start..values.len().min(start + WAITING * BLOCK));
        let spreads = &mut waiting[..some.len().div_ceil(BLOCK)];
        let fill = |(block, spread): (usize, &mut Spread)| {
            *spread = of_block(some.slice(block * BLOCK..some.len().min((block + 1) * BLOCK)));
        };
        if some.len() <= FEW {
            spreads.iter_mut().enumerate().for_each(fill);
        } else {
            spreads.par_iter_mut().enumerate().for_each(fill);
        }
        whole = spreads.iter().copied().fold(whole, Spread::merged);
    }
    Ok(scaled(whole, scale))
}

/// The sum of every row's squared deviations from its mean; of values times `scale`. Rows are not empty.
pub(crate) fn squared_deviations_rows(scale: f32, rows: HostVectors<'_>) -> Result<Vec<f32>> {
    let length = rows.dim();
    let at_once = (BLOCK / length).max(1);
    let mut sums = memory::filled(rows.rows(), 0.0)?;
    let fill = |(part, sums): (usize, &mut [f32])| {
        for (number, sum) in sums.iter_mut().enumerate() {
            let row = rows.row(part * at_once + number);
            *sum =
                if length > BLOCK { squared_deviations(scale, row)? } else { scaled(of_block(row), scale) };
        }
        Ok(())
    };
    by_part(&mut sums, (at_once, length), fill)?;
    Ok(sums)
}

/// The sum of scaled values. Neither it nor the sum as it was leaves the range of f64.
fn scaled(spread: Spread, scale: f32) -> f32 {
    (spread.squares * f64::from(scale) * f64::from(scale)) as f32
}

/// The spread of a block, from pieces that stay in a core's first-level cache.
fn of_block(values: Elements<'_>) -> Spread {
    let mut scratch = [0.0; PIECE];
    let mut whole = Spread::default();
    for start in (0..values.len()).step_by(PIECE) {
        let piece = values.slice(start..values.len().min(start + PIECE));
        whole = whole.merged(of_piece(piece.widened(&mut scratch)));
    }
    whole
}

fn of_piece(values: &[f32]) -> Spread {
    with_widest_registers(
        #[inline(always)]
        || {
            let count = values.len() as f64;
            let mean = sum(values, |value| value) / count;
            let squares = sum(values, |value| (value - mean) * (value - mean));
            Spread { count, mean, squares }
        },
    )
}

/// The sum of a term of each value.
#[inline(always)]
fn sum(values: &[f32], term: impl Fn(f64) -> f64) -> f64 {
    let (chunks, tail) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += term(f64::from(chunk[lane]));
        }
    }
    let tail: f64 = tail.iter().map(|&value| term(f64::from(value))).sum();
    lanes.iter().sum::<f64>() + tail
}
