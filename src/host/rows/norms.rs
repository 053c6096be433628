//! Squared norms, and the check that vectors may enter: they must be finite, with a norm that is 0 or in range.

use crate::parallel::*;

use crate::elements::{Elements, HostVectors};
use crate::error::{Error, Result};
use crate::host::arithmetic::sums::squares;
use crate::interrupt;
use crate::memory;

/// The smallest squared norm that is accepted, apart from 0.
pub(crate) const SHORTEST: f64 = 1.0 / (1u128 << 100) as f64;
const LONGEST: f64 = (1u128 << 100) as f64;

/// Rows that a thread takes at a time.
const PIECE: usize = 256;

/// Elements that are read between two looks at whether to stop.
const WORK: usize = 1 << 26;

/// The squared norm of each row, of bits how many there are, or an error for the first row that is refused.
pub(crate) fn checked(argument: &'static str, rows: HostVectors<'_>) -> Result<Vec<f64>> {
    start_threads()?;
    let mut squared = memory::filled(rows.rows(), 0.0)?;
    let fill = |(piece, squared): (usize, &mut [f64])| {
        let mut scratch = vec![0.0; rows.dim()];
        for (row, squared) in squared.iter_mut().enumerate() {
            *squared = match rows.row(piece * PIECE + row) {
                Elements::Bits(bytes) => bytes.iter().map(|byte| f64::from(byte.0.count_ones())).sum(),
                row => squares(row.widened(&mut scratch)),
            };
        }
    };
    // Waking a thread costs more than a little work.
    if rows.rows() <= PIECE {
        fill((0, &mut squared));
    } else {
        let pieces = (WORK / rows.dim()).div_ceil(PIECE);
        for (number, squared) in squared.chunks_mut(pieces * PIECE).enumerate() {
            interrupt::check()?;
            let squared = squared.par_chunks_mut(PIECE).enumerate();
            squared.for_each(|(piece, squared)| fill((number * pieces + piece, squared)));
        }
    }
    // A sum of squares of finite f32 is finite in f64.
    if let Some(row) = squared.iter().position(|squared| !squared.is_finite()) {
        return Err(Error::NotFinite { argument, row: row as u64 });
    }
    match squared.iter().position(|&squared| squared != 0.0 && !(SHORTEST..=LONGEST).contains(&squared)) {
        None => Ok(squared),
        Some(row) => Err(Error::NormOutOfRange { argument, row: row as u64 }),
    }
}
