//! Sums of numbers, of their magnitudes, of their squares, and of products.

use crate::elements::Elements;
use crate::host::reduce::fold::Fold;

/// Declares sums in f64 of a term of each number, or of a pair of numbers; the result is the bits of the sum.
macro_rules! sums {
    ($($name:ident $is_of_pairs:literal: $a:ident $b:ident $term:expr;)*) => {$(
        pub(super) struct $name;

        impl Fold for $name {
            type Lane = f64;
            const IS_OF_PAIRS: bool = $is_of_pairs;
            const EMPTY: f64 = 0.0;
            const PADDING: f32 = 0.0;

            #[inline(always)]
            fn step(lane: f64, a: f32, b: f32) -> f64 {
                let ($a, $b) = (f64::from(a), f64::from(b));
                lane + $term
            }

            #[inline(always)]
            fn join(one: f64, other: f64) -> f64 {
                one + other
            }

            #[inline(always)]
            fn result(lane: f64, _: Elements<'_>) -> u64 {
                lane.to_bits()
            }
        }
    )*};
}

sums! {
    Sum false: a _b a;
    SumOfMagnitudes false: a _b a.abs();
    SumOfSquares false: a _b a * a;
    SumOfProducts true: a b a * b;
}
