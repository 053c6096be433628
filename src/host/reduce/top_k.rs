//! The smallest numbers of rows on the host: what is below a limit is collected, and thinned now and then. The first limit comes from the
//! smallest numbers of lanes: k lanes whose smallest is not above it have k numbers that are not.

use pulp::Arch;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::host::{Once, widened};
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

/// Numbers that are ordered by counting those before each.
const COUNTED: usize = 32;

/// Lanes of a first limit at most.
const MOST_LANES: usize = 1024;

/// Numbers of a first limit at most.
const SAMPLE: usize = 1 << 12;

/// Numbers that are sorted by several threads.
const SORTED_BY_MANY: usize = 1 << 16;

/// What stands where a row has fewer numbers than are wanted: the key of a NaN is the largest.
const NOTHING: u64 = u64::MAX;

/// The k smallest of some numbers by key and column, which are in the halves of a word.
#[derive(Debug)]
struct Smallest {
    k: usize,
    /// More than k of them, after the first thinning with nothing that is not below the limit.
    list: Vec<u64>,
    /// What is not below it is not among the k smallest, NaN before one is known.
    limit: f32,
    /// The smallest numbers of lanes.
    lanes: Vec<f32>,
    /// Widened numbers.
    space: Vec<f32>,
}

impl Smallest {
    fn new(k: usize) -> Self {
        Self { k, list: vec![], limit: f32::NAN, lanes: vec![], space: vec![] }
    }

    fn room(k: usize) -> usize {
        ROOM.max(k.saturating_mul(2))
    }

    /// Lanes of a first limit: more than are wanted, for some lanes have two of the smallest numbers.
    fn lanes(k: usize) -> usize {
        LANES.max((2 * k.min(MOST_LANES / 2)).next_power_of_two())
    }

    /// Bytes that one takes.
    fn bytes(k: usize, kind: ElementKind) -> usize {
        let widened = if kind == ElementKind::F32 { 0 } else { CHUNK * 4 };
        // A list that grows is there twice for a moment.
        2 * Self::room(k).max(2 * Self::lanes(k)) * 8 + Self::lanes(k) * 4 + widened
    }

    /// Takes the numbers of the columns from `first` on: ascending from call to call, all below 2^32.
    fn take<T: Element>(&mut self, first: usize, values: &[T]) {
        if T::KIND == ElementKind::F32 {
            return self.take_f32(first, widened(values, &mut []));
        }
        let mut space = std::mem::take(&mut self.space);
        for (number, values) in values.chunks(CHUNK).enumerate() {
            space.resize(values.len(), 0.0);
            self.take_f32(first + number * CHUNK, widened(values, &mut space));
        }
        self.space = space;
    }

    fn take_f32(&mut self, first: usize, values: &[f32]) {
        if self.list.is_empty() && self.limit.is_nan() {
            if values.len() < 2 * Self::lanes(self.k) {
                return self.take_all(first, values);
            }
            self.limit = self.first_limit(&values[..values.len().min(SAMPLE)]);
        }
        let mut rest = values;
        while self.limit.is_nan()
            && let Some((&value, behind)) = rest.split_first()
        {
            self.add(value, first + values.len() - rest.len());
            rest = behind;
        }
        let start = first + values.len() - rest.len();
        let once = Once;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                once.take();
                self.sift(start, rest);
            },
        );
    }

    /// Takes numbers that are so few that no limit is worth its while.
    fn take_all(&mut self, first: usize, values: &[f32]) {
        let start = self.list.len();
        self.list.resize(start + values.len(), NOTHING);
        let mut has_nan = false;
        for (column, (word, &value)) in (first as u64..).zip(self.list[start..].iter_mut().zip(values)) {
            // The key of a number without branches; of the zeros it has one.
            let bits = (value + 0.0).to_bits();
            let key = bits ^ (((bits as i32) >> 31) as u32 | 1 << 31);
            *word = u64::from(key) << 32 | column;
            has_nan |= value.is_nan();
        }
        if has_nan {
            self.list.retain(|&word| !values[(word & 0xffff_ffff) as usize - first].is_nan());
        }
    }

    /// A limit above the k smallest of these numbers, NaN where it is not known.
    fn first_limit(&mut self, values: &[f32]) -> f32 {
        let count = Self::lanes(self.k);
        if count < 2 * self.k {
            return f32::NAN;
        }
        self.lanes.clear();
        self.lanes.resize(count, f32::INFINITY);
        let once = Once;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                once.take();
                for values in values.chunks_exact(count) {
                    let (chunks, _) = values.as_chunks::<LANES>();
                    let (lanes, _) = self.lanes.as_chunks_mut::<LANES>();
                    for (lanes, values) in lanes.iter_mut().zip(chunks) {
                        for lane in 0..LANES {
                            // No comparison holds with a NaN.
                            lanes[lane] = if values[lane] < lanes[lane] { values[lane] } else { lanes[lane] };
                        }
                    }
                }
            },
        );
        let (_, &mut limit, _) = self.lanes.select_nth_unstable_by(self.k - 1, f32::total_cmp);
        // Numbers that equal it may be wanted. Where it is infinite some lanes may have no number.
        if limit < f32::INFINITY { (limit + 0.0).next_up() } else { f32::NAN }
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
        if self.list.len() >= Self::room(self.k) {
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

    /// The k smallest, in order, behind them [`NOTHING`]; and nothing is left.
    fn finish(&mut self, found: &mut [u64]) {
        found.fill(NOTHING);
        self.limit = f32::NAN;
        if self.k == 1 {
            found[0] = self.list.iter().fold(NOTHING, |least, &word| least.min(word));
        } else if self.list.len() <= COUNTED {
            self.count(found);
        } else {
            self.thin();
            if self.list.len() >= SORTED_BY_MANY {
                self.list.par_sort_unstable();
            } else {
                self.list.sort_unstable();
            }
            found[..self.list.len()].copy_from_slice(&self.list);
        }
        self.list.clear();
    }

    /// Puts each word behind those that are smaller. No two are equal.
    fn count(&self, found: &mut [u64]) {
        let mut words = [NOTHING; COUNTED];
        words[..self.list.len()].copy_from_slice(&self.list);
        let once = Once;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                once.take();
                let mut before = [0u32; COUNTED];
                for &other in &self.list {
                    for (before, &word) in before.iter_mut().zip(&words) {
                        *before += u32::from(other < word);
                    }
                }
                for (&word, before) in self.list.iter().zip(before) {
                    if let Some(found) = found.get_mut(before as usize) {
                        *found = word;
                    }
                }
            },
        );
    }
}

/// Scratch memory of a selection.
struct Room {
    /// Parts of a row that threads take, 1 where they take rows.
    pieces: usize,
    /// Rows that are selected from together.
    rows: usize,
    /// Whether there is room for one thread alone.
    is_alone: bool,
}

impl Room {
    fn of(count: usize, length: usize, k: usize, kind: ElementKind, budget: u64) -> Result<Self> {
        let threads = rayon::current_num_threads();
        let own = Smallest::bytes(k, kind);
        // Every piece leaves k numbers, so it should have far more.
        let pieces = (length / PIECE.max(k.saturating_mul(8))).min(4 * threads).max(1);
        let bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        // Lists of pieces, and all of them one behind the other.
        if count < 2 * threads && pieces > 1 && pieces * (own + k * 8) + k * 8 <= bytes {
            return Ok(Self { pieces, rows: 1, is_alone: false });
        }
        for (is_alone, threads) in [(false, threads), (true, 1)] {
            let rows = bytes.saturating_sub(threads * own) / (k * 8);
            if rows > 0 {
                return Ok(Self { pieces: 1, rows, is_alone });
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

/// The k smallest numbers of each row, k > 0, by value and column; rows have fewer than 2^32 numbers. Its scratch memory is within the
/// budget.
pub(crate) fn top_k<T: Element>(rows: MatrixView<'_, T>, k: usize, budget: u64) -> Result<Neighbors> {
    let (count, length) = (rows.rows(), rows.dim());
    let k = k.min(length);
    let room = Room::of(count, length, k, T::KIND, budget)?;
    let mut neighbors = Neighbors::with_capacity(count, count * k);
    for start in (0..count).step_by(room.rows) {
        let some = rows.slice(start..count.min(start + room.rows));
        let mut found = vec![0; some.rows() * k];
        if room.pieces > 1 {
            of_long_row(some.values(), k, room.pieces).finish(&mut found);
        } else {
            of_rows(some, k, room.is_alone, &mut found);
        }
        neighbors.push_words(&found, k, NOTHING, |word| Neighbor {
            id: word & 0xffff_ffff,
            distance: value_of((word >> 32) as u32),
        });
    }
    Ok(neighbors)
}

/// The k smallest numbers of a row, by threads that take pieces of it.
fn of_long_row<T: Element>(values: &[T], k: usize, pieces: usize) -> Smallest {
    let length = values.len().div_ceil(pieces);
    let smallest = |(number, values): (usize, &[T])| {
        let mut smallest = Smallest::new(k);
        smallest.take(number * length, values);
        smallest.thin();
        smallest.list
    };
    let lists: Vec<Vec<u64>> = values.par_chunks(length).enumerate().map(smallest).collect();
    Smallest { list: lists.concat(), ..Smallest::new(k) }
}

/// The words of the k smallest numbers of each row.
fn of_rows<T: Element>(rows: MatrixView<'_, T>, k: usize, is_alone: bool, found: &mut [u64]) {
    let length = rows.dim();
    let at_once = (PIECE / length).max(1);
    let some_rows = |(values, found): (&[T], &mut [u64])| {
        let mut smallest = Smallest::new(k);
        for (row, found) in values.chunks_exact(length).zip(found.chunks_exact_mut(k)) {
            smallest.take(0, row);
            smallest.finish(found);
        }
    };
    if is_alone || rows.rows() <= at_once {
        return some_rows((rows.values(), found));
    }
    let parts = rows.values().par_chunks(at_once * length).zip(found.par_chunks_mut(at_once * k));
    parts.for_each(some_rows);
}
