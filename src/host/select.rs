//! The smallest numbers of rows on the host: what is below the smallest k so far is collected, and thinned now and then.

use pulp::Arch;
use rayon::prelude::*;

use super::widened;
use crate::kernels::{key_of, value_of};
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::neighbors::{Neighbor, Neighbors};

/// Numbers that are compared beside each other.
const LANES: usize = 32;

/// Numbers that are widened at a time.
const CHUNK: usize = 4096;

/// Numbers that are worth a thread.
const PIECE: usize = 1 << 16;

/// Numbers that wait before they are thinned: at least.
const ROOM: usize = 64;

/// Numbers that are sorted by several threads.
const SORTED_BY_MANY: usize = 1 << 16;

/// The k smallest of some numbers by key and column, which are in the halves of a word.
#[derive(Debug)]
struct Smallest {
    k: usize,
    /// More than k of them, after the first thinning with nothing that is not below the limit.
    list: Vec<u64>,
    /// The largest of k numbers that were seen, NaN before there are as many.
    limit: f32,
}

impl Smallest {
    fn new(k: usize) -> Self {
        Self { k, list: vec![], limit: f32::NAN }
    }

    fn room(&self) -> usize {
        ROOM.max(self.k.saturating_mul(2))
    }

    /// Takes the numbers of the columns from `first` on: ascending from call to call, all below 2^32.
    fn take<T: Element>(&mut self, first: usize, values: &[T], space: &mut Vec<f32>) {
        if T::KIND == ElementKind::F32 {
            return self.take_f32(first, widened(values, &mut []));
        }
        for (number, values) in values.chunks(CHUNK).enumerate() {
            space.resize(values.len(), 0.0);
            self.take_f32(first + number * CHUNK, widened(values, space));
        }
    }

    fn take_f32(&mut self, first: usize, values: &[f32]) {
        let mut rest = values;
        while self.limit.is_nan()
            && let Some((&value, behind)) = rest.split_first()
        {
            self.add(value, first + values.len() - rest.len());
            rest = behind;
        }
        let start = first + values.len() - rest.len();
        Arch::new().dispatch(
            #[inline(always)]
            || self.sift(start, rest),
        );
    }

    /// Adds what is below the limit. What equals it lies behind what is known, for its column is larger.
    #[inline(always)]
    fn sift(&mut self, first: usize, values: &[f32]) {
        let (chunks, tail) = values.as_chunks::<LANES>();
        let mut column = first;
        for chunk in chunks {
            let mut passes = false;
            for &value in chunk {
                passes |= value < self.limit;
            }
            if passes {
                self.add_some(column, chunk);
            }
            column += LANES;
        }
        self.add_some(column, tail);
    }

    #[inline(never)]
    fn add_some(&mut self, first: usize, values: &[f32]) {
        for (place, &value) in values.iter().enumerate() {
            if value < self.limit {
                self.add(value, first + place);
            }
        }
    }

    fn add(&mut self, value: f32, column: usize) {
        if value.is_nan() {
            return;
        }
        self.list.push(u64::from(key_of(value)) << 32 | column as u64);
        if self.list.len() >= self.room() {
            self.thin();
            self.limit =
                self.list.get(self.k - 1).map_or(f32::NAN, |&largest| value_of((largest >> 32) as u32));
        }
    }

    /// Leaves the k smallest, the largest of them last.
    fn thin(&mut self) {
        if self.list.len() > self.k {
            self.list.select_nth_unstable(self.k - 1);
            self.list.truncate(self.k);
        }
    }

    /// The k smallest, in order, and nothing is left.
    fn finish(&mut self) -> impl Iterator<Item = Neighbor> {
        self.thin();
        self.limit = f32::NAN;
        if self.list.len() >= SORTED_BY_MANY {
            self.list.par_sort_unstable();
        } else {
            self.list.sort_unstable();
        }
        let hit = |word: u64| Neighbor { id: word & 0xffff_ffff, distance: value_of((word >> 32) as u32) };
        self.list.drain(..).map(hit)
    }
}

/// The k smallest numbers of a row, by threads that take pieces of it.
fn of_long_row<T: Element>(values: &[T], k: usize, pieces: usize) -> Smallest {
    let length = values.len().div_ceil(pieces);
    let smallest = |(number, values): (usize, &[T])| {
        let mut smallest = Smallest::new(k);
        smallest.take(number * length, values, &mut vec![]);
        smallest.thin();
        smallest.list
    };
    let lists: Vec<Vec<u64>> = values.par_chunks(length).enumerate().map(smallest).collect();
    Smallest { k, list: lists.concat(), limit: f32::NAN }
}

/// The k smallest numbers of each row, k > 0, by value and column; rows have fewer than 2^32 numbers.
pub(crate) fn top_k<T: Element>(rows: MatrixView<'_, T>, k: usize) -> Neighbors {
    let (count, length) = (rows.rows(), rows.dim());
    let k = k.min(length);
    let threads = rayon::current_num_threads();
    // Every piece leaves k numbers, so it should have far more.
    let pieces = (length / PIECE.max(k.saturating_mul(8))).min(4 * threads).max(1);
    let mut found = Neighbors::with_capacity(count, count * k);
    if count < 2 * threads && pieces > 1 {
        for row in 0..count {
            found.push_row(of_long_row(rows.row(row), k, pieces).finish());
        }
        return found;
    }
    let at_once = (PIECE / length).max(1);
    let some_rows = |number: usize| {
        let (mut hits, mut ends) = (vec![], vec![]);
        let (mut smallest, mut space) = (Smallest::new(k), vec![]);
        for row in number * at_once..count.min((number + 1) * at_once) {
            smallest.take(0, rows.row(row), &mut space);
            hits.extend(smallest.finish());
            ends.push(hits.len());
        }
        (hits, ends)
    };
    let batches = count.div_ceil(at_once);
    let parts: Vec<(Vec<Neighbor>, Vec<usize>)> =
        if batches == 1 { vec![some_rows(0)] } else { (0..batches).into_par_iter().map(some_rows).collect() };
    for (hits, ends) in parts {
        let mut start = 0;
        for end in ends {
            found.push_row(hits[start..end].iter().copied());
            start = end;
        }
    }
    found
}
