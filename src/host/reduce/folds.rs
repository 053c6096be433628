//! What reductions do with the numbers of a row: those of a long one go through lanes beside each other, and of short ones every row has a
//! lane. A row's order of summation depends on its length alone.

use std::marker::PhantomData;

use pulp::Arch;

use crate::host::reduce::columns::{ROWS, fold_short_rows};
use crate::host::{Once, widened};
use crate::kernels::reduce_blocks::Operation;
use crate::matrix::{Element, ElementKind};

/// Lanes: enough to hide the latency of addition at every register width.
pub(crate) const LANES: usize = 32;

/// Numbers that are widened at a time: they stay in a core's first cache.
const PIECE: usize = 2048;

/// What stands for the place of a number where there is none.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// How a row becomes one.
pub(crate) trait Fold {
    type Lane: Copy;
    /// Whether it needs the other numbers.
    const IS_OF_PAIRS: bool = false;
    /// What a lane holds before the first number.
    const NOTHING: Self::Lane;
    /// The number that leaves a lane as it is.
    const PADDING: f32;
    fn step(lane: Self::Lane, a: f32, b: f32) -> Self::Lane;
    fn join(one: Self::Lane, other: Self::Lane) -> Self::Lane;
    /// What the lanes of this row found.
    fn found(lane: Self::Lane, row: &[impl Element]) -> u64;
    /// What each lane found of its row, where that is a place.
    #[inline(always)]
    fn places(_lanes: &[Self::Lane; ROWS], _columns: &[[f32; ROWS]]) -> Option<[u32; ROWS]> {
        None
    }
}

/// A term of a sum.
trait Term {
    const IS_OF_PAIRS: bool;
    fn of(a: f64, b: f64) -> f64;
}

macro_rules! terms {
    ($($name:ident $is_of_pairs:literal: $a:ident $b:ident $term:expr;)*) => {$(
        struct $name;

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
    Numbers false: a _b a;
    Magnitudes false: a _b a.abs();
    Squares false: a _b a * a;
    Products true: a b a * b;
}

struct Sum<T>(PhantomData<T>);

impl<T: Term> Fold for Sum<T> {
    type Lane = f64;
    const IS_OF_PAIRS: bool = T::IS_OF_PAIRS;
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
    fn found(lane: f64, _: &[impl Element]) -> u64 {
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
    fn found(lane: i32, _: &[impl Element]) -> u64 {
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
    fn found(lane: f32, row: &[impl Element]) -> u64 {
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
    fn found(lane: f32, row: &[impl Element]) -> u64 {
        place(lane, row)
    }

    #[inline(always)]
    fn places(lanes: &[f32; ROWS], columns: &[[f32; ROWS]]) -> Option<[u32; ROWS]> {
        let mut places = [u32::MAX; ROWS];
        // The first comes last.
        for (place, column) in columns.iter().enumerate().rev() {
            for row in 0..ROWS {
                places[row] = if column[row] == lanes[row] { place as u32 } else { places[row] };
            }
        }
        Some(places)
    }
}

/// The first place of a number; zeros of both signs are one.
#[inline(always)]
fn place<T: Element>(number: f32, row: &[T]) -> u64 {
    if T::KIND == ElementKind::F32 {
        return place_of_f32(number, widened(row, &mut [])).unwrap_or(NOWHERE);
    }
    let mut space = [0.0; PIECE];
    for (piece, values) in row.chunks(PIECE).enumerate() {
        if let Some(place) = place_of_f32(number, widened(values, &mut space[..values.len()])) {
            return (piece * PIECE) as u64 + place;
        }
    }
    NOWHERE
}

#[inline(always)]
fn place_of_f32(number: f32, values: &[f32]) -> Option<u64> {
    let (chunks, tail) = values.as_chunks::<LANES>();
    for (start, chunk) in (0..).step_by(LANES).zip(chunks) {
        if let Some(lane) = first_lane(number, chunk) {
            return Some(start + lane);
        }
    }
    // Numbers before the tail are others.
    if let Some(window) = values.last_chunk::<LANES>() {
        return first_lane(number, window).map(|lane| (values.len() - LANES) as u64 + lane);
    }
    tail.iter().position(|&value| value == number).map(|place| place as u64)
}

#[inline(always)]
fn first_lane(number: f32, chunk: &[f32; LANES]) -> Option<u64> {
    let mut is_here = false;
    for &value in chunk {
        is_here |= value == number;
    }
    if !is_here {
        return None;
    }
    let mut lanes = [0; LANES];
    for lane in 0..LANES {
        lanes[lane] = if chunk[lane] == number { lane as u32 } else { LANES as u32 };
    }
    for width in [16, 8, 4, 2, 1] {
        for lane in 0..width {
            let other = lanes[lane + width];
            lanes[lane] = if other < lanes[lane] { other } else { lanes[lane] };
        }
    }
    Some(lanes[0].into())
}

/// One step in every lane.
#[inline(always)]
pub(crate) fn step<F: Fold>(lanes: [F::Lane; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [F::Lane; LANES] {
    let mut next = lanes;
    for lane in 0..LANES {
        next[lane] = F::step(lanes[lane], a[lane], b[lane]);
    }
    next
}

/// The last numbers of a row, so many, before them what changes no lane.
#[inline(always)]
fn last<F: Fold>(row: &[f32], count: usize) -> [f32; LANES] {
    let mut chunk = [F::PADDING; LANES];
    if let Some(window) = row.last_chunk::<LANES>() {
        // A copy of a length that is not known before would be a call.
        for lane in 0..LANES {
            chunk[lane] = if lane + count >= LANES { window[lane] } else { F::PADDING };
        }
    } else {
        chunk[LANES - count..].copy_from_slice(row);
    }
    chunk
}

/// The lanes of a row, or of a piece of one.
#[inline(always)]
fn lanes_of<F: Fold>(a: &[f32], b: &[f32]) -> [F::Lane; LANES] {
    let mut lanes = [F::NOTHING; LANES];
    let ((chunks, tail), (other_chunks, _)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in chunks.iter().zip(other_chunks) {
        lanes = step::<F>(lanes, a, b);
    }
    // The lanes are never indexed by what is not known before: they would leave the registers.
    if !tail.is_empty() {
        lanes = step::<F>(lanes, &last::<F>(a, tail.len()), &last::<F>(b, tail.len()));
    }
    lanes
}

#[inline(always)]
fn joined<F: Fold>(lanes: [F::Lane; LANES]) -> F::Lane {
    let lanes: [_; 16] = halved::<F, _, _>(lanes);
    let lanes: [_; 8] = halved::<F, _, _>(lanes);
    let lanes: [_; 4] = halved::<F, _, _>(lanes);
    let [one, other] = halved::<F, _, _>(lanes);
    F::join(one, other)
}

/// Lanes that lie half the lanes apart, joined. In new lanes: old ones that were written again would leave the registers.
#[inline(always)]
fn halved<F: Fold, const N: usize, const H: usize>(lanes: [F::Lane; N]) -> [F::Lane; H] {
    let mut half = [F::NOTHING; H];
    for lane in 0..H {
        half[lane] = F::join(lanes[lane], lanes[lane + H]);
    }
    half
}

/// Rows of f32, of which the last may be shorter.
fn fold_f32<F: Fold>(a: &[f32], b: &[f32], length: usize, found: &mut [u64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut start = 0;
            for found in found {
                let end = a.len().min(start + length);
                let row = &a[start..end];
                let lanes = lanes_of::<F>(row, &b[start..end]);
                *found = F::found(joined::<F>(lanes), row);
                start = end;
            }
        },
    );
}

/// The lane of a piece of a row.
fn fold_piece<F: Fold>(a: &[f32], b: &[f32]) -> F::Lane {
    let once = Once;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            once.take();
            joined::<F>(lanes_of::<F>(a, b))
        },
    )
}

/// Both operands in f32, where both are needed.
#[inline(always)]
fn both<'s, F: Fold, T: Element>(
    [a, b]: [&'s [T]; 2],
    [space, other_space]: &'s mut [[f32; PIECE]; 2],
) -> (&'s [f32], &'s [f32]) {
    let values = widened(a, &mut space[..a.len()]);
    (values, if F::IS_OF_PAIRS { widened(b, &mut other_space[..b.len()]) } else { values })
}

fn fold_rows<F: Fold, T: Element>(a: &[T], b: &[T], length: usize, found: &mut [u64]) {
    if T::KIND == ElementKind::F32 {
        return fold_f32::<F>(widened(a, &mut []), widened(b, &mut []), length, found);
    }
    let mut spaces = [[0.0; PIECE]; 2];
    if length <= PIECE {
        let at_once = PIECE / length;
        for (number, found) in found.chunks_mut(at_once).enumerate() {
            let start = number * at_once * length;
            let range = start..a.len().min(start + found.len() * length);
            let (a, b) = both::<F, T>([&a[range.clone()], &b[range]], &mut spaces);
            fold_f32::<F>(a, b, length, found);
        }
        return;
    }
    for (row, found) in found.iter_mut().enumerate() {
        let range = row * length..a.len().min((row + 1) * length);
        let (mut lane, mut start) = (F::NOTHING, range.start);
        while start < range.end {
            let end = range.end.min(start + PIECE);
            let (a, b) = both::<F, T>([&a[start..end], &b[start..end]], &mut spaces);
            lane = F::join(lane, fold_piece::<F>(a, b));
            start = end;
        }
        *found = F::found(lane, &a[range]);
    }
}

/// What is found in each row of `length` numbers, of which the last may have fewer: the bits of a sum in f64, the key of an extreme, or
/// its place in the row, where one is wanted and there is a number. `b` is as long as `a`.
pub(crate) fn fold<T: Element>(operation: Operation, a: &[T], b: &[T], length: usize, found: &mut [u64]) {
    let is_short = length < LANES;
    macro_rules! of {
        ($fold:ty) => {
            if is_short { fold_short_rows::<$fold, T> } else { fold_rows::<$fold, T> }
        };
    }
    let fold = match operation {
        Operation::Dot => of!(Sum<Products>),
        Operation::Sum => of!(Sum<Numbers>),
        Operation::SumAbs => of!(Sum<Magnitudes>),
        Operation::SumSquares => of!(Sum<Squares>),
        Operation::MaxAbs => of!(Magnitude),
        Operation::Min => of!(Key<Least>),
        Operation::Max => of!(Key<Most>),
        Operation::ArgMin => of!(Place<Least>),
        Operation::ArgMax => of!(Place<Most>),
    };
    fold(a, b, length, found);
}
