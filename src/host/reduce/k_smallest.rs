//! Selection of the k smallest numbers of a row.
//!
//! Numbers below a limit become candidates, and many candidates are thinned to k, which lowers the limit. The first limit comes from the
//! smallest number of each of several lanes: k lanes whose smallest does not exceed it hold k numbers that do not.

use crate::parallel::*;

use crate::elements::{ElementKind, Elements};
use crate::host::arithmetic::registers::with_widest_registers;
use crate::kernels::{key_of, value_of};

/// Numbers that are compared side by side.
const LANES: usize = 32;

/// Numbers that are widened at a time.
const CHUNK: usize = 4096;

/// The fewest candidates that are thinned.
const MANY: usize = 64;

/// Up to this many candidates are sorted by counting the smaller ones of each.
const COUNTED: usize = 32;

/// The most lanes of a first limit.
const MOST_LANES: usize = 1024;

/// The most numbers that a first limit is found from.
const SAMPLE: usize = 1 << 12;

/// Candidates that justify sorting on several threads.
const SORTED_BY_MANY: usize = 1 << 16;

/// Pads rows of fewer than k numbers: a key of NaN, above all others.
pub(super) const ABSENT: u64 = u64::MAX;

/// The k smallest numbers of a row so far, as words: the key in the upper half, the column in the lower.
#[derive(Debug)]
pub(super) struct KSmallest {
    k: usize,
    /// A superset of the k smallest. Once thinned, only numbers below the limit are added.
    candidates: Vec<u64>,
    /// A number not below it is not among the k smallest. NaN while none is known.
    limit: f32,
    /// The smallest number of each lane.
    lanes: Vec<f32>,
    /// Widened numbers.
    scratch: Vec<f32>,
}

impl KSmallest {
    pub(super) fn new(k: usize) -> Self {
        Self { k, candidates: vec![], limit: f32::NAN, lanes: vec![], scratch: vec![] }
    }

    /// The number of candidates at which they are thinned to k.
    fn many(k: usize) -> usize {
        MANY.max(k.saturating_mul(2))
    }

    /// Lanes of a first limit: more than k, because some lanes have two of the smallest numbers.
    fn lanes(k: usize) -> usize {
        LANES.max((2 * k.min(MOST_LANES / 2)).next_power_of_two())
    }

    /// Bytes that one selection takes.
    pub(super) fn bytes(k: usize, kind: ElementKind) -> usize {
        let widened = if kind == ElementKind::F32 { 0 } else { CHUNK * 4 };
        // A vector exists twice while it grows.
        2 * Self::many(k).max(2 * Self::lanes(k)) * 8 + Self::lanes(k) * 4 + widened
    }

    /// Takes the numbers of the columns from `first` on: ascending from call to call, all below 2^32.
    pub(super) fn take(&mut self, first: usize, values: Elements<'_>) {
        if let Elements::F32(values) = values {
            return self.take_f32(first, values);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for start in (0..values.len()).step_by(CHUNK) {
            let chunk = values.slice(start..values.len().min(start + CHUNK));
            self.take_f32(first + start, chunk.widened_in(&mut scratch));
        }
        self.scratch = scratch;
    }

    fn take_f32(&mut self, first: usize, values: &[f32]) {
        if self.candidates.is_empty() && self.limit.is_nan() {
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
        with_widest_registers(
            #[inline(always)]
            || self.sift(start, rest),
        );
    }

    /// Takes all of a few numbers: finding a limit would take longer.
    fn take_all(&mut self, first: usize, values: &[f32]) {
        let start = self.candidates.len();
        self.candidates.resize(start + values.len(), ABSENT);
        let mut has_nan = false;
        for (column, (word, &value)) in (first as u64..).zip(self.candidates[start..].iter_mut().zip(values))
        {
            // `key_of` without branches. Adding 0 turns -0 into 0.
            let bits = (value + 0.0).to_bits();
            let key = bits ^ (((bits as i32) >> 31) as u32 | 1 << 31);
            *word = u64::from(key) << 32 | column;
            has_nan |= value.is_nan();
        }
        if has_nan {
            self.candidates.retain(|&word| !values[(word & 0xffff_ffff) as usize - first].is_nan());
        }
    }

    /// A limit above the k smallest of these numbers; NaN where none is known.
    fn first_limit(&mut self, values: &[f32]) -> f32 {
        let count = Self::lanes(self.k);
        if count < 2 * self.k {
            return f32::NAN;
        }
        self.lanes.clear();
        self.lanes.resize(count, f32::INFINITY);
        with_widest_registers(
            #[inline(always)]
            || {
                for values in values.chunks_exact(count) {
                    let (chunks, _) = values.as_chunks::<LANES>();
                    let (lanes, _) = self.lanes.as_chunks_mut::<LANES>();
                    for (lanes, values) in lanes.iter_mut().zip(chunks) {
                        for lane in 0..LANES {
                            // Comparisons with NaN are false.
                            lanes[lane] = if values[lane] < lanes[lane] { values[lane] } else { lanes[lane] };
                        }
                    }
                }
            },
        );
        let (_, &mut limit, _) = self.lanes.select_nth_unstable_by(self.k - 1, f32::total_cmp);
        // Numbers equal to it may be among the k smallest. If it is infinite, some lanes may hold no number.
        if limit < f32::INFINITY { (limit + 0.0).next_up() } else { f32::NAN }
    }

    /// Adds the numbers below the limit. A number equal to it comes after those known, because its column is larger.
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
        self.candidates.push(u64::from(key_of(value)) << 32 | column as u64);
        if self.candidates.len() >= Self::many(self.k) {
            self.thin();
            self.limit =
                self.candidates.get(self.k - 1).map_or(f32::NAN, |&largest| value_of((largest >> 32) as u32));
        }
    }

    /// Keeps only the k smallest, the largest of them last.
    fn thin(&mut self) {
        if self.candidates.len() > self.k {
            self.candidates.select_nth_unstable(self.k - 1);
            self.candidates.truncate(self.k);
        }
    }

    /// Writes the k smallest in order, padded with [`ABSENT`], and starts anew.
    pub(super) fn finish(&mut self, sorted: &mut [u64]) {
        sorted.fill(ABSENT);
        self.limit = f32::NAN;
        if self.k == 1 {
            sorted[0] = self.candidates.iter().fold(ABSENT, |least, &word| least.min(word));
        } else if self.candidates.len() <= COUNTED {
            self.sort_by_counting(sorted);
        } else {
            self.thin();
            if self.candidates.len() >= SORTED_BY_MANY {
                self.candidates.par_sort_unstable();
            } else {
                self.candidates.sort_unstable();
            }
            sorted[..self.candidates.len()].copy_from_slice(&self.candidates);
        }
        self.candidates.clear();
    }

    /// Puts each word behind the smaller ones. No two are equal.
    fn sort_by_counting(&self, sorted: &mut [u64]) {
        let mut words = [ABSENT; COUNTED];
        words[..self.candidates.len()].copy_from_slice(&self.candidates);
        with_widest_registers(
            #[inline(always)]
            || {
                let mut before = [0u32; COUNTED];
                for &other in &self.candidates {
                    for (before, &word) in before.iter_mut().zip(&words) {
                        *before += u32::from(other < word);
                    }
                }
                for (&word, before) in self.candidates.iter().zip(before) {
                    if let Some(place) = sorted.get_mut(before as usize) {
                        *place = word;
                    }
                }
            },
        );
    }

    /// The candidates, as the words of one piece of a row.
    pub(super) fn into_words(mut self) -> Vec<u64> {
        self.thin();
        self.candidates
    }

    /// A selection from the words of the pieces of a row.
    pub(super) fn of_words(k: usize, words: Vec<u64>) -> Self {
        Self { candidates: words, ..Self::new(k) }
    }
}
