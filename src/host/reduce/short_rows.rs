//! Folds of rows of fewer than [`LANES`] numbers: rows are transposed to columns, and every row has a lane.

use crate::elements::Elements;
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::reduce::fold::{Fold, LANES, NOWHERE, ROWS, step};

/// The first numbers of all rows, then their second numbers, and so on.
type Columns = [[f32; ROWS]; LANES];

/// Folds rows of `length` numbers, fewer than [`LANES`].
pub(super) fn fold_short_rows<F: Fold>(a: Elements<'_>, b: Elements<'_>, length: usize, results: &mut [u64]) {
    let mut scratch = [0.0; ROWS * LANES];
    let mut columns = [[[0.0; ROWS]; LANES]; 2];
    for (number, results) in results.chunks_mut(ROWS).enumerate() {
        let start = number * ROWS * length;
        let range = start..start + results.len() * length;
        for (values, columns) in [a, b].into_iter().zip(&mut columns) {
            transpose(values.slice(range.clone()).widened(&mut scratch), length, columns);
            if !F::IS_OF_PAIRS {
                break;
            }
        }
        let [first, second] = &columns;
        let second = if F::IS_OF_PAIRS { second } else { first };
        let (lanes, places) = with_widest_registers(
            #[inline(always)]
            || {
                let mut lanes = [F::EMPTY; ROWS];
                for (a, b) in first[..length].iter().zip(&second[..length]) {
                    lanes = step::<F>(lanes, a, b);
                }
                (lanes, F::places(&lanes, &first[..length]))
            },
        );
        match places {
            Some(places) => {
                for (result, place) in results.iter_mut().zip(places) {
                    *result = if place == u32::MAX { NOWHERE } else { place.into() };
                }
            }
            None => {
                for (row, (result, lane)) in results.iter_mut().zip(lanes).enumerate() {
                    let start = start + row * length;
                    *result = F::result(lane, a.slice(start..start + length));
                }
            }
        }
    }
}

/// Transposes rows to columns.
fn transpose(rows: &[f32], length: usize, columns: &mut Columns) {
    macro_rules! by_length {
        ($($length:literal)*) => {
            match length {
                $($length => transpose_known::<$length>(rows, columns),)*
                _ => {
                    // Eight columns at a time; the last eight end the row and may overlap.
                    for start in (0..length - 8).step_by(8).chain([length - 8]) {
                        let Some(columns) = columns[start..].first_chunk_mut::<8>() else { return };
                        for (number, row) in rows.chunks_exact(length).enumerate().take(ROWS) {
                            let Some(row) = row[start..].first_chunk::<8>() else { return };
                            for place in 0..8 {
                                columns[place][number] = row[place];
                            }
                        }
                    }
                }
            }
        };
    }
    by_length!(1 2 3 4 5 6 7 8)
}

/// The same for a length known at compile time, for which the compiler finds shuffles.
fn transpose_known<const LENGTH: usize>(rows: &[f32], columns: &mut Columns) {
    with_widest_registers(
        #[inline(always)]
        || {
            let (rows, _) = rows.as_chunks::<LENGTH>();
            if let Some(rows) = rows.first_chunk::<ROWS>() {
                for number in 0..ROWS {
                    for place in 0..LENGTH {
                        columns[place][number] = rows[number][place];
                    }
                }
            } else {
                for (number, row) in rows.iter().enumerate().take(ROWS) {
                    for place in 0..LENGTH {
                        columns[place][number] = row[place];
                    }
                }
            }
        },
    );
}
