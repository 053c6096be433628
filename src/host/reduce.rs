//! Reductions on the host: sums are accumulated in f64, in blocks whose results are added in their order, so that the bits of a sum
//! depend on the length alone, not on how many threads there are.

use rayon::prelude::*;

use super::folds::{NOWHERE, fold};
use crate::kernels::reduce::Operation;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Numbers of a block: two of them, widened, fit a core's second cache.
const BLOCK: usize = 1 << 14;

/// What a vector was reduced to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduced {
    /// What [`Operation::value`] reads.
    pub(crate) record: [u32; 2],
    /// For an operation that finds a place, where there is a number.
    pub(crate) place: u64,
}

/// A vector, whose values a sum multiplies with `scale`. `others` are as many as the values.
pub(crate) fn reduce<T: Element>(
    operation: Operation,
    scale: f32,
    values: &[T],
    others: Option<&[T]>,
) -> Reduced {
    let found = rows_of(operation.extreme(), values, others, BLOCK);
    if operation.is_sum() {
        let sum = found.iter().fold(0.0, |sum, &bits| sum + f64::from_bits(bits));
        return Reduced { record: [scaled(operation, sum, scale), 0], place: 0 };
    }
    // Of equal keys the first.
    let first = found.iter().enumerate().min_by_key(|&(_, key)| key);
    let (block, key) = first.map_or((0, u32::MAX), |(block, &key)| (block, key as u32));
    let mut reduced = Reduced { record: [key, 0], place: 0 };
    if operation.is_place() && operation.value(reduced.record).is_some() {
        let start = block * BLOCK;
        let block = &values[start..values.len().min(start + BLOCK)];
        reduced.place = start as u64 + rows_of(operation, block, None, BLOCK)[0];
    }
    reduced
}

/// The word of every row, as [`Operation::word`] has it. `others` are of the same shape.
pub(crate) fn reduce_rows<T: Element>(
    operation: Operation,
    scale: f32,
    values: MatrixView<'_, T>,
    others: Option<MatrixView<'_, T>>,
) -> Vec<u32> {
    let length = values.dim();
    if length > BLOCK {
        let word = |row: usize| {
            let others = others.map(|others| others.row(row));
            let Reduced { record, place } = reduce(operation, scale, values.row(row), others);
            operation.word(record, place as u32)
        };
        return (0..values.rows()).into_par_iter().map(word).collect();
    }
    let found = rows_of(operation, values.values(), others.map(|others| others.values()), length);
    let word = |found: u64| match operation {
        _ if operation.is_sum() => scaled(operation, f64::from_bits(found), scale),
        _ if found == NOWHERE => u32::MAX,
        _ => found as u32,
    };
    found.into_iter().map(word).collect()
}

/// The bits of a sum of scaled values. In f64 none of them leaves the range, so the sum can be scaled itself.
fn scaled(operation: Operation, sum: f64, scale: f32) -> u32 {
    let scale = f64::from(scale);
    let factor = if operation == Operation::SumSquares { scale * scale } else { scale };
    ((sum * factor) as f32).to_bits()
}

/// What is found in each row of `length` numbers at most [`BLOCK`], of which the last may have fewer.
fn rows_of<T: Element>(operation: Operation, values: &[T], others: Option<&[T]>, length: usize) -> Vec<u64> {
    let mut found = vec![0; values.len().div_ceil(length)];
    let at_once = (BLOCK / length).max(1);
    let some_rows = |spaces: &mut [Vec<f32>; 2], number: usize, found: &mut [u64]| {
        let start = number * at_once * length;
        let range = start..values.len().min(start + found.len() * length);
        let [space, other_space] = spaces;
        let a = in_f32(&values[range.clone()], space);
        let b = others.map_or(a, |others| in_f32(&others[range], other_space));
        fold(operation, a, b, length, found);
    };
    if found.len() <= at_once {
        some_rows(&mut Default::default(), 0, &mut found);
    } else {
        let pieces = found.par_chunks_mut(at_once).enumerate();
        pieces.for_each_init(Default::default, |spaces, (number, found)| some_rows(spaces, number, found));
    }
    found
}

/// Numbers in f32, in `space` where they are not.
fn in_f32<'a, T: Element>(values: &'a [T], space: &'a mut Vec<f32>) -> &'a [f32] {
    if T::KIND != ElementKind::F32 {
        space.resize(values.len(), 0.0);
    }
    super::widened(values, space)
}
