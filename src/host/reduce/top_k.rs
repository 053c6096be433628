//! The k smallest numbers of each row, on the host.

use crate::parallel::*;

use crate::elements::{ElementKind, Elements, HostVectors};
use crate::error::{Error, Result};
use crate::host::reduce::k_smallest::{ABSENT, KSmallest};
use crate::interrupt::{self, Stop};
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};

/// Numbers that justify a task of their own.
const PIECE: usize = 1 << 16;

/// Numbers between two looks at whether to stop.
const WORK: usize = 1 << 22;

/// How a selection fits its scratch memory.
struct Schedule {
    /// Pieces that a row is divided into, 1 where threads take whole rows.
    pieces: usize,
    /// Rows that are selected from together.
    rows: usize,
    /// Whether the memory is enough for one thread only.
    is_single_thread: bool,
}

impl Schedule {
    fn new(count: usize, length: usize, k: usize, kind: ElementKind, budget: u64) -> Result<Self> {
        let threads = current_num_threads();
        let own = KSmallest::bytes(k, kind);
        // Every piece leaves k numbers, so it should have far more.
        let pieces = (length / PIECE.max(k.saturating_mul(8))).min(4 * threads).max(1);
        let bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        // The words of all pieces exist piece by piece and concatenated.
        if count < 2 * threads && pieces > 1 && pieces * (own + k * 8) + k * 8 <= bytes {
            return Ok(Self { pieces, rows: 1, is_single_thread: false });
        }
        for (is_single_thread, threads) in [(false, threads), (true, 1)] {
            let rows = bytes.saturating_sub(threads * own) / (k * 8);
            if rows > 0 {
                return Ok(Self { pieces: 1, rows, is_single_thread });
            }
        }
        let needed = (own + k * 8) as u64;
        Err(Error::Budget {
            purpose: format!("the {k} smallest of rows of {length} numbers"),
            needed,
            budget,
        })
    }
}

/// The k smallest numbers of each row, k > 0, by value and column, with scratch memory within the budget. Rows have fewer than 2^32 numbers.
pub(crate) fn top_k(rows: HostVectors<'_>, k: usize, budget: u64) -> Result<Neighbors> {
    let (count, length) = (rows.rows(), rows.dim());
    let k = k.min(length);
    let schedule = Schedule::new(count, length, k, rows.kind(), budget)?;
    let mut neighbors = Neighbors::with_room(count, count * k)?;
    for start in (0..count).step_by(schedule.rows) {
        let some = rows.slice(start..count.min(start + schedule.rows));
        let mut words = memory::filled(some.rows() * k, 0)?;
        if schedule.pieces > 1 {
            let smallest =
                interrupt::watch(length, |stop| of_long_row(some.elements(), k, schedule.pieces, stop));
            smallest?.finish(&mut words);
        } else {
            of_rows(some, k, schedule.is_single_thread, &mut words)?;
        }
        neighbors.push_words(&words, k, ABSENT, |word| Neighbor {
            id: word & 0xffff_ffff,
            distance: value_of((word >> 32) as u32),
        });
    }
    Ok(neighbors)
}

/// The k smallest numbers of a row, whose pieces are shared among threads.
fn of_long_row(values: Elements<'_>, k: usize, pieces: usize, stop: Stop<'_>) -> Result<KSmallest> {
    let length = values.len().div_ceil(pieces);
    let words_of = |piece: usize| {
        let start = piece * length;
        let mut smallest = KSmallest::new(k);
        take(&mut smallest, start, values.slice(start..values.len().min(start + length)), stop)?;
        Ok(smallest.into_words())
    };
    let pieces = (0..values.len().div_ceil(length)).into_par_iter();
    let words: Vec<Vec<u64>> = pieces.map(words_of).collect::<Result<_>>()?;
    Ok(KSmallest::of_words(k, words.concat()))
}

/// Takes the numbers of the columns from `first` on.
fn take(smallest: &mut KSmallest, first: usize, values: Elements<'_>, stop: Stop<'_>) -> Result<()> {
    for start in (0..values.len()).step_by(WORK) {
        stop.check()?;
        smallest.take(first + start, values.slice(start..values.len().min(start + WORK)));
    }
    Ok(())
}

/// Writes the words of the k smallest numbers of each row.
fn of_rows(rows: HostVectors<'_>, k: usize, is_single_thread: bool, words: &mut [u64]) -> Result<()> {
    let at_once = (PIECE / rows.dim()).max(1);
    let select = |stop: Stop<'_>, (part, words): (usize, &mut [u64])| {
        let mut smallest = KSmallest::new(k);
        for (number, words) in words.chunks_exact_mut(k).enumerate() {
            take(&mut smallest, 0, rows.row(part * at_once + number), stop)?;
            smallest.finish(words);
        }
        Ok(())
    };
    if is_single_thread || rows.rows() <= at_once {
        return words.chunks_mut(at_once * k).enumerate().try_for_each(|part| select(Stop::here(), part));
    }
    let parts = words.par_chunks_mut(at_once * k).enumerate();
    interrupt::watch(rows.rows() * rows.dim(), |stop| parts.try_for_each(|part| select(stop, part)))
}
