//! What reductions do with the numbers of a row, in lanes beside each other. A row's order of summation depends on its length alone.

use std::marker::PhantomData;

use pulp::Arch;

use crate::kernels::reduce::Operation;

/// Lanes: enough to hide the latency of addition at every register width.
const LANES: usize = 32;

/// What stands for the place of a number where there is none.
pub(super) const NOWHERE: u64 = u64::MAX;

/// How a row becomes one.
trait Fold {
    type Lane: Copy;
    /// What a lane holds before the first number.
    const NOTHING: Self::Lane;
    /// The number that leaves a lane as it is.
    const PADDING: f32;
    fn step(lane: Self::Lane, a: f32, b: f32) -> Self::Lane;
    fn join(one: Self::Lane, other: Self::Lane) -> Self::Lane;
    /// What the lanes of this row found.
    fn found(lane: Self::Lane, row: &[f32]) -> u64;
}

/// A term of a sum.
trait Term {
    fn of(a: f64, b: f64) -> f64;
}

macro_rules! terms {
    ($($name:ident: $a:ident $b:ident $term:expr;)*) => {$(
        struct $name;

        impl Term for $name {
            #[inline(always)]
            fn of($a: f64, $b: f64) -> f64 {
                $term
            }
        }
    )*};
}

terms! {
    Numbers: a _b a;
    Magnitudes: a _b a.abs();
    Squares: a _b a * a;
    Products: a b a * b;
}

struct Sum<T>(PhantomData<T>);

impl<T: Term> Fold for Sum<T> {
    type Lane = f64;
    const NOTHING: f64 = 0.0;
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
    fn found(lane: f64, _: &[f32]) -> u64 {
        lane.to_bits()
    }
}

/// The largest magnitude by its bits, NaN above all numbers.
struct Magnitude;

impl Fold for Magnitude {
    type Lane = i32;
    const NOTHING: i32 = 0;
    const PADDING: f32 = 0.0;

    #[inline(always)]
    fn step(lane: i32, a: f32, _: f32) -> i32 {
        Self::join(lane, (a.to_bits() & 0x7fff_ffff) as i32)
    }

    #[inline(always)]
    fn join(one: i32, other: i32) -> i32 {
        if other > one { other } else { one }
    }

    #[inline(always)]
    fn found(lane: i32, _: &[f32]) -> u64 {
        Operation::MaxAbs.key(f32::from_bits(lane as u32)).into()
    }
}

/// Which end of the numbers.
trait End {
    const OPERATION: Operation;
    /// What no number lies behind.
    const LAST: f32;
    fn is_better(one: f32, other: f32) -> bool;
}

struct Least;

impl End for Least {
    const OPERATION: Operation = Operation::Min;
    const LAST: f32 = f32::INFINITY;

    #[inline(always)]
    fn is_better(one: f32, other: f32) -> bool {
        one < other
    }
}

struct Most;

impl End for Most {
    const OPERATION: Operation = Operation::Max;
    const LAST: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn is_better(one: f32, other: f32) -> bool {
        one > other
    }
}

/// The key of an extreme.
struct Key<E>(PhantomData<E>);

impl<E: End> Fold for Key<E> {
    type Lane = f32;
    const NOTHING: f32 = E::LAST;
    const PADDING: f32 = E::LAST;

    #[inline(always)]
    fn step(lane: f32, a: f32, _: f32) -> f32 {
        Self::join(lane, a)
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        // No comparison holds with a NaN.
        if E::is_better(other, one) { other } else { one }
    }

    #[inline(always)]
    fn found(lane: f32, row: &[f32]) -> u64 {
        let is_nothing = lane == E::LAST && place(lane, row) == NOWHERE;
        E::OPERATION.key(if is_nothing { f32::NAN } else { lane }).into()
    }
}

/// The place of an extreme.
struct Place<E>(PhantomData<E>);

impl<E: End> Fold for Place<E> {
    type Lane = f32;
    const NOTHING: f32 = E::LAST;
    const PADDING: f32 = E::LAST;

    #[inline(always)]
    fn step(lane: f32, a: f32, b: f32) -> f32 {
        Key::<E>::step(lane, a, b)
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        Key::<E>::join(one, other)
    }

    #[inline(always)]
    fn found(lane: f32, row: &[f32]) -> u64 {
        place(lane, row)
    }
}

/// The first place of a number; zeros of both signs are one.
#[inline(always)]
fn place(number: f32, row: &[f32]) -> u64 {
    let (chunks, _) = row.as_chunks::<LANES>();
    let mut start = 0;
    for chunk in chunks {
        let mut is_here = false;
        for &value in chunk {
            is_here |= value == number;
        }
        if is_here {
            break;
        }
        start += LANES;
    }
    for (place, &value) in row.iter().enumerate().skip(start) {
        if value == number {
            return place as u64;
        }
    }
    NOWHERE
}

/// One step in every lane.
#[inline(always)]
fn step<F: Fold>(lanes: [F::Lane; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [F::Lane; LANES] {
    let mut next = lanes;
    for lane in 0..LANES {
        next[lane] = F::step(lanes[lane], a[lane], b[lane]);
    }
    next
}

/// What is left over of a row, and behind it what changes no lane.
#[inline(always)]
fn padded<F: Fold>(tail: &[f32]) -> [f32; LANES] {
    let mut chunk = [F::PADDING; LANES];
    chunk[..tail.len()].copy_from_slice(tail);
    chunk
}

#[inline(always)]
fn lane_of<F: Fold>(a: &[f32], b: &[f32]) -> F::Lane {
    let mut lanes = [F::NOTHING; LANES];
    let ((chunks, tail), (other_chunks, other_tail)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in chunks.iter().zip(other_chunks) {
        lanes = step::<F>(lanes, a, b);
    }
    // The lanes are never indexed by what is not known before: they would leave the registers.
    if !tail.is_empty() {
        lanes = step::<F>(lanes, &padded::<F>(tail), &padded::<F>(other_tail));
    }
    for width in [16, 8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] = F::join(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}

fn fold_rows<F: Fold>(a: &[f32], b: &[f32], length: usize, found: &mut [u64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut start = 0;
            for found in found {
                let end = a.len().min(start + length);
                let row = &a[start..end];
                *found = F::found(lane_of::<F>(row, &b[start..end]), row);
                start = end;
            }
        },
    );
}

/// What is found in each row of `length` numbers, of which the last may have fewer: the bits of a sum in f64, the key of an extreme, or
/// its place in the row, where one is wanted and there is a number. `b` is as long as `a`.
pub(super) fn fold(operation: Operation, a: &[f32], b: &[f32], length: usize, found: &mut [u64]) {
    let fold = match operation {
        Operation::Dot => fold_rows::<Sum<Products>>,
        Operation::Sum => fold_rows::<Sum<Numbers>>,
        Operation::SumAbs => fold_rows::<Sum<Magnitudes>>,
        Operation::SumSquares => fold_rows::<Sum<Squares>>,
        Operation::MaxAbs => fold_rows::<Magnitude>,
        Operation::Min => fold_rows::<Key<Least>>,
        Operation::Max => fold_rows::<Key<Most>>,
        Operation::ArgMin => fold_rows::<Place<Least>>,
        Operation::ArgMax => fold_rows::<Place<Most>>,
    };
    fold(a, b, length, found);
}
