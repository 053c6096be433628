//! Squared norms, and whether vectors may enter: finite, and of a norm that is 0 or in range.

use crate::error::{Error, Result};
use crate::host::search::distances::squares;
use crate::matrix::{Element, MatrixView};
use rayon::prelude::*;

/// The squared norm of the shortest vector that may enter, but for zeros.
pub(crate) const SHORTEST: f64 = 1.0 / (1u128 << 100) as f64;
const LONGEST: f64 = (1u128 << 100) as f64;

/// Rows that a thread looks at before it takes others.
const PIECE: usize = 256;

/// The squared norm of each row, or the error for the first that is refused.
pub(crate) fn checked<T: Element>(argument: &'static str, rows: MatrixView<'_, T>) -> Result<Vec<f64>> {
    let mut squared = vec![0.0; rows.rows()];
    squared.par_chunks_mut(PIECE).enumerate().for_each(|(piece, squared)| {
        let mut space = vec![0.0; rows.dim()];
        for (row, squared) in squared.iter_mut().enumerate() {
            *squared = squares(crate::host::widened(rows.row(piece * PIECE + row), &mut space));
        }
    });
    // A sum of squares of finite f32 is finite in f64.
    if let Some(row) = squared.iter().position(|squared| !squared.is_finite()) {
        return Err(Error::NotFinite { argument, row: row as u64 });
    }
    match squared.iter().position(|&squared| squared != 0.0 && !(SHORTEST..=LONGEST).contains(&squared)) {
        None => Ok(squared),
        Some(row) => Err(Error::NormOutOfRange { argument, row: row as u64 }),
    }
}
