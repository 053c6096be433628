//! Sums of numbers, of their magnitudes, of their squares, and of products.

use std::marker::PhantomData;

use crate::elements::Elements;
use crate::host::reduce::fold::Fold;

/// A term of a sum.
pub(super) trait Term {
    const IS_OF_PAIRS: bool;
    fn of(a: f64, b: f64) -> f64;
}

macro_rules! terms {
    ($($name:ident $is_of_pairs:literal: $a:ident $b:ident $term:expr;)*) => {$(
        pub(super) struct $name;

        impl Term for $name {
            const IS_OF_PAIRS: bool = $is_of_pairs;

            #[inline(always)]
            fn of($a: f64, $b: f64) -> f64 {
                $term
            }
        }
    )*};
}

terms! {
    Plain false: a _b a;
    Magnitudes false: a _b a.abs();
    Squares false: a _b a * a;
    Products true: a b a * b;
}

/// A sum in f64; the result is its bits.
pub(super) struct Sum<T>(PhantomData<T>);

impl<T: Term> Fold for Sum<T> {
    type Lane = f64;
    const IS_OF_PAIRS: bool = T::IS_OF_PAIRS;
    const EMPTY: f64 = 0.0;
    const PADDING: f32 = 0.0;

    #[inline(always)]
    fn step(lane: f64, a: f32, b: f32) -> f64 {
        lane + T::of(f64::from(a), f64::from(b))
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
