//! Reductions on the host: sums are accumulated in f64, in blocks whose results are added in their order. The bits of a sum therefore depend
//! on the length alone, not on the number of threads.

use crate::parallel::*;

use crate::elements::{Elements, HostVectors};
use crate::error::Result;
use crate::host::reduce::fold::NOWHERE;
use crate::host::reduce::operations::fold;
use crate::interrupt;
use crate::kernels::reduce_blocks::Operation;
use crate::memory;

/// Numbers of a block.
pub(super) const BLOCK: usize = 1 << 14;

/// Up to this many numbers are reduced by the calling thread: waking others takes longer.
pub(super) const FEW: usize = 8 * BLOCK;

/// Numbers of rows that are reduced between two looks at whether to stop.
pub(super) const WORK: usize = 1 << 26;

/// Results of blocks that wait to be added, and of rows that wait to be rounded. They lie on a thread's stack, so reductions take no scratch
/// memory that counts against a budget.
pub(super) const WAITING: usize = 1024;

/// The result of reducing a vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduced {
    /// The record that [`Operation::value`] reads.
    pub(crate) record: [u32; 2],
    /// The place, for an operation that finds one, where there is a number.
    pub(crate) place: u64,
}

/// Reduces a vector; a sum is that of the values times `scale`. `others` is as long as `values`, and of the same element type.
pub(crate) fn reduce(
    operation: Operation,
    scale: f32,
    values: Elements<'_>,
    others: Elements<'_>,
) -> Result<Reduced> {
    let mut results = [0; WAITING];
    let (mut sum, mut least, mut first) = (0.0, u32::MAX, 0);
    for start in (0..values.len()).step_by(WAITING * BLOCK) {
        interrupt::check()?;
        let range = start..values.len().min(start + WAITING * BLOCK);
        let results = &mut results[..range.len().div_ceil(BLOCK)];
        fold_blocks(operation.extreme(), values.slice(range.clone()), others.slice(range), results);
        for (block, &result) in results.iter().enumerate() {
            if operation.is_sum() {
                sum += f64::from_bits(result);
            } else if (result as u32) < least {
                // The first of equal keys.
                (least, first) = (result as u32, start + block * BLOCK);
            }
        }
    }
    if operation.is_sum() {
        let sum = (sum * factor(operation, scale)) as f32;
        return Ok(Reduced { record: [sum.to_bits(), 0], place: 0 });
    }
    let mut reduced = Reduced { record: [least, 0], place: 0 };
    if operation.is_place() && operation.value(reduced.record).is_some() {
        let block = values.slice(first..values.len().min(first + BLOCK));
        let mut place = [0];
        fold(operation, block, block, BLOCK, &mut place);
        reduced.place = first as u64 + place[0];
    }
    Ok(reduced)
}

/// Folds each block.
fn fold_blocks(operation: Operation, a: Elements<'_>, b: Elements<'_>, results: &mut [u64]) {
    if a.len() <= FEW {
        return fold(operation, a, b, BLOCK, results);
    }
    results.par_iter_mut().enumerate().for_each(|(block, result)| {
        let range = block * BLOCK..a.len().min((block + 1) * BLOCK);
        fold(operation, a.slice(range.clone()), b.slice(range), BLOCK, std::slice::from_mut(result));
    });
}

/// Reduces every row to the word that [`Operation::word`] describes. `others` has the shape of `values` and the same element type.
pub(crate) fn reduce_rows(
    operation: Operation,
    scale: f32,
    values: HostVectors<'_>,
    others: HostVectors<'_>,
) -> Result<Vec<u32>> {
    let length = values.dim();
    let factor = factor(operation, scale);
    let rows = (BLOCK / length).max(1);
    let mut words = memory::filled(values.rows(), 0)?;
    let reduce_part = |(part, words): (usize, &mut [u32])| {
        let rows = part * rows..part * rows + words.len();
        let (a, b) = (values.slice(rows.clone()).elements(), others.slice(rows).elements());
        if length > BLOCK {
            let Reduced { record, place } = reduce(operation, scale, a, b)?;
            words[0] = operation.word(record, place as u32);
            return Ok(());
        }
        let mut results = [0; WAITING];
        for (number, words) in words.chunks_mut(WAITING).enumerate() {
            let start = number * WAITING * length;
            let range = start..start + words.len() * length;
            let results = &mut results[..words.len()];
            fold(operation, a.slice(range.clone()), b.slice(range), length, results);
            let results = words.iter_mut().zip(&*results);
            if operation.is_sum() {
                results.for_each(|(word, &sum)| *word = ((f64::from_bits(sum) * factor) as f32).to_bits());
            } else {
                results.for_each(|(word, &result)| {
                    *word = if result == NOWHERE { u32::MAX } else { result as u32 }
                });
            }
        }
        Ok(())
    };
    by_part(&mut words, (rows, length), reduce_part)?;
    Ok(words)
}

/// Fills a result for each row of `length` numbers, on several threads where there are many numbers: `fill(part, results)` fills those of
/// `rows` rows, and of fewer at the end.
pub(super) fn by_part<T: Send>(
    results: &mut [T],
    (rows, length): (usize, usize),
    fill: impl Fn((usize, &mut [T])) -> Result<()> + Sync,
) -> Result<()> {
    if results.len() * length <= FEW {
        return results.chunks_mut(rows).enumerate().try_for_each(fill);
    }
    let parts = (WORK / (rows * length)).max(1);
    for (number, results) in results.chunks_mut(parts * rows).enumerate() {
        interrupt::check()?;
        let fill = |(part, results): (usize, &mut [T])| fill((number * parts + part, results));
        if parts == 1 {
            // Threads share the row itself, and this one looks at whether to stop.
            fill((0, results))?;
        } else {
            results.par_chunks_mut(rows).enumerate().try_for_each(fill)?;
        }
    }
    Ok(())
}

/// The factor of a sum that makes it one of scaled values. Neither leaves the range of f64.
fn factor(operation: Operation, scale: f32) -> f64 {
    let scale = f64::from(scale);
    if operation == Operation::SumSquares { scale * scale } else { scale }
}
