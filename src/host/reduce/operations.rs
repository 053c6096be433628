//! The fold of each operation.

use crate::elements::Elements;
use crate::host::reduce::extremes::{Extremum, LargestMagnitude};
use crate::host::reduce::fold::LANES;
use crate::host::reduce::long_rows::fold_rows;
use crate::host::reduce::short_rows::fold_short_rows;
use crate::host::reduce::sums::{Sum, SumOfMagnitudes, SumOfProducts, SumOfSquares};
use crate::kernels::reduce_blocks::Operation;

/// Folds each row of `length` numbers; the last may have fewer. A result is the bits of a sum in f64, the key of an extreme, or the place of
/// one in its row, [`NOWHERE`](super::fold::NOWHERE) without any number. `b` is as long as `a`, and of the same element type.
pub(super) fn fold(
    operation: Operation,
    a: Elements<'_>,
    b: Elements<'_>,
    length: usize,
    results: &mut [u64],
) {
    let is_short = length < LANES;
    macro_rules! of {
        ($fold:ty) => {
            if is_short { fold_short_rows::<$fold> } else { fold_rows::<$fold> }
        };
    }
    let fold = match operation {
        Operation::Dot => of!(SumOfProducts),
        Operation::Sum => of!(Sum),
        Operation::SumAbs => of!(SumOfMagnitudes),
        Operation::SumSquares => of!(SumOfSquares),
        Operation::MaxAbs => of!(LargestMagnitude),
        Operation::Min => of!(Extremum<false, false>),
        Operation::Max => of!(Extremum<true, false>),
        Operation::ArgMin => of!(Extremum<false, true>),
        Operation::ArgMax => of!(Extremum<true, true>),
    };
    fold(a, b, length, results);
}
