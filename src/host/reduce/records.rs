//! Reductions on the host: sums are accumulated in f64, in blocks whose results are added in their order, so that the bits of a sum
//! depend on the length alone, not on how many threads there are.

use rayon::prelude::*;

use crate::host::reduce::folds::{NOWHERE, fold};
use crate::kernels::reduce_blocks::Operation;
use crate::matrix::{Element, MatrixView};

/// Numbers of a block.
const BLOCK: usize = 1 << 14;

/// So many numbers are reduced by the thread that asks: to wake others takes longer.
const FEW: usize = 8 * BLOCK;

/// Blocks whose results wait for each other, and rows whose results wait to be rounded. What waits lies on a thread's stack, so reductions
/// take no scratch memory that a budget counts.
const WAITING: usize = 1024;

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
    let others = others.unwrap_or(values);
    let mut space = [0; WAITING];
    let (mut sum, mut least, mut first) = (0.0, u32::MAX, 0);
    for (run, (a, b)) in values.chunks(WAITING * BLOCK).zip(others.chunks(WAITING * BLOCK)).enumerate() {
        let found = &mut space[..a.len().div_ceil(BLOCK)];
        fold_blocks(operation.extreme(), a, b, found);
        for (block, &found) in found.iter().enumerate() {
            if operation.is_sum() {
                sum += f64::from_bits(found);
            } else if (found as u32) < least {
                // Of equal keys the first.
                (least, first) = (found as u32, run * WAITING + block);
            }
        }
    }
    if operation.is_sum() {
        let sum = (sum * factor(operation, scale)) as f32;
        return Reduced { record: [sum.to_bits(), 0], place: 0 };
    }
    let mut reduced = Reduced { record: [least, 0], place: 0 };
    if operation.is_place() && operation.value(reduced.record).is_some() {
        let start = first * BLOCK;
        let block = &values[start..values.len().min(start + BLOCK)];
        let mut place = [0];
        fold(operation, block, block, BLOCK, &mut place);
        reduced.place = start as u64 + place[0];
    }
    reduced
}

/// What is found in each block.
fn fold_blocks<T: Element>(operation: Operation, a: &[T], b: &[T], found: &mut [u64]) {
    if a.len() <= FEW {
        return fold(operation, a, b, BLOCK, found);
    }
    let blocks = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK)).zip(found);
    blocks.for_each(|((a, b), found)| fold(operation, a, b, BLOCK, std::slice::from_mut(found)));
}

/// The word of every row, as [`Operation::word`] has it. `others` are of the same shape.
pub(crate) fn reduce_rows<T: Element>(
    operation: Operation,
    scale: f32,
    values: MatrixView<'_, T>,
    others: Option<MatrixView<'_, T>>,
) -> Vec<u32> {
    let length = values.dim();
    let (a, b) = (values.values(), others.map_or(values.values(), |others| others.values()));
    let factor = factor(operation, scale);
    let some_rows = |a: &[T], b: &[T], words: &mut [u32]| {
        let mut space = [0; WAITING];
        let at_once = WAITING * length;
        for ((a, b), words) in a.chunks(at_once).zip(b.chunks(at_once)).zip(words.chunks_mut(WAITING)) {
            let found = &mut space[..words.len()];
            fold(operation, a, b, length, found);
            let found = words.iter_mut().zip(&*found);
            if operation.is_sum() {
                found.for_each(|(word, &sum)| *word = ((f64::from_bits(sum) * factor) as f32).to_bits());
            } else {
                found.for_each(|(word, &found)| {
                    *word = if found == NOWHERE { u32::MAX } else { found as u32 }
                });
            }
        }
    };
    let long_row = |a: &[T], b: &[T], words: &mut [u32]| {
        let Reduced { record, place } = reduce(operation, scale, a, Some(b));
        words[0] = operation.word(record, place as u32);
    };
    let rows = (BLOCK / length).max(1);
    let mut words = vec![0; values.rows()];
    let work = |((a, b), words): ((&[T], &[T]), &mut [u32])| {
        if length > BLOCK { long_row(a, b, words) } else { some_rows(a, b, words) }
    };
    if a.len() <= FEW {
        let parts = a.chunks(rows * length).zip(b.chunks(rows * length));
        parts.zip(words.chunks_mut(rows)).for_each(work);
    } else {
        let parts = a.par_chunks(rows * length).zip(b.par_chunks(rows * length));
        parts.zip(words.par_chunks_mut(rows)).for_each(work);
    }
    words
}

/// What a sum of values is multiplied with, so that it is one of scaled values. In f64 none of them leaves the range.
fn factor(operation: Operation, scale: f32) -> f64 {
    let scale = f64::from(scale);
    if operation == Operation::SumSquares { scale * scale } else { scale }
}
