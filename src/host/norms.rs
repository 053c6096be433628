//! Squared norms, and whether vectors may enter: finite, and of a norm that is 0 or in range.

use super::distances::squares;
use crate::error::{Error, Result};
use crate::matrix::{Element, MatrixView};
use rayon::prelude::*;

/// Rows that a thread looks at before it takes others.
const PIECE: usize = 256;

/// The squared norm of each row, or the error for the first that is refused.
pub(crate) fn checked<T: Element>(argument: &'static str, rows: MatrixView<'_, T>) -> Result<Vec<f64>> {
    let mut squared = vec![0.0; rows.rows()];
    squared.par_chunks_mut(PIECE).enumerate().for_each(|(piece, squared)| {
        let mut space = vec![0.0; rows.dim()];
        for (row, squared) in squared.iter_mut().enumerate() {
            *squared = squares(super::widened(rows.row(piece * PIECE + row), &mut space));
        }
    });
    let [least, most] = [2f64.powi(-100), 2f64.powi(100)];
    // A sum of squares of finite f32 is finite in f64.
    if let Some(row) = squared.iter().position(|squared| !squared.is_finite()) {
        return Err(Error::NotFinite { argument, row: row as u64 });
    }
    match squared.iter().position(|&squared| squared != 0.0 && !(least..=most).contains(&squared)) {
        None => Ok(squared),
        Some(row) => Err(Error::NormOutOfRange { argument, row: row as u64 }),
    }
}
