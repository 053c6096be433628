//! Reductions of short rows: rows are turned to columns, and every row has a lane.

use pulp::Arch;

use crate::host::reduce::folds::{Fold, LANES, NOWHERE, step};
use crate::host::{Once, widened};
use crate::matrix::Element;

/// Rows that are taken at a time, one a lane.
pub(crate) const ROWS: usize = LANES;

/// Of each row the first number, then of each row the second.
type Columns = [[f32; ROWS]; LANES];

/// Rows of fewer than [`LANES`] numbers.
pub(crate) fn fold_short_rows<F: Fold, T: Element>(a: &[T], b: &[T], length: usize, found: &mut [u64]) {
    let mut spaces = [[0.0; ROWS * LANES]; 2];
    let mut columns = [[[0.0; ROWS]; LANES]; 2];
    let (values, others) = (a, b);
    for (number, found) in found.chunks_mut(ROWS).enumerate() {
        let start = number * ROWS * length;
        let range = start..start + found.len() * length;
        for ((values, space), columns) in [values, others].into_iter().zip(&mut spaces).zip(&mut columns) {
            turn(widened(&values[range.clone()], &mut space[..range.len()]), length, columns);
            if !F::IS_OF_PAIRS {
                break;
            }
        }
        let [a, b] = &columns;
        let b = if F::IS_OF_PAIRS { b } else { a };
        let once = Once;
        let (lanes, places) = Arch::new().dispatch(
            #[inline(always)]
            || {
                once.take();
                let mut lanes = [F::NOTHING; ROWS];
                for (a, b) in a[..length].iter().zip(&b[..length]) {
                    lanes = step::<F>(lanes, a, b);
                }
                (lanes, F::places(&lanes, &a[..length]))
            },
        );
        match places {
            Some(places) => {
                for (found, place) in found.iter_mut().zip(places) {
                    *found = if place == u32::MAX { NOWHERE } else { place.into() };
                }
            }
            None => {
                let rows = values[range].chunks_exact(length);
                for ((found, lane), row) in found.iter_mut().zip(lanes).zip(rows) {
                    *found = F::found(lane, row);
                }
            }
        }
    }
}

/// Rows to columns.
fn turn(rows: &[f32], length: usize, columns: &mut Columns) {
    macro_rules! by_length {
        ($($length:literal)*) => {
            match length {
                $($length => turn_known::<$length>(rows, columns),)*
                _ => {
                    // Eight columns at a time, at last those that end the row.
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

/// The same for a length that the compiler knows: it finds shuffles.
fn turn_known<const LENGTH: usize>(rows: &[f32], columns: &mut Columns) {
    let once = Once;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            once.take();
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
