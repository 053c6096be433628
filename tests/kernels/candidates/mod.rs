//! Candidate lists, and the terms and margins by which `collect` and `winnow` fill them.

mod collect_tiles;
mod compact;
mod documents;
mod gather;
mod lists;
mod pick;
mod probes;
mod winnow;

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::common::bench::GUARD;
use crate::common::quantized::{bytes_of_bits, common_bits, integers};
use nearfield::Metric;
use nearfield::internals::certificate::{Form, Margin, Quantizing, Terms};
use nearfield::internals::kernels::{key_of, screen_tile_i8, value_of};
use nearfield_testing::Random;

/// The forms of quantised vectors.
pub(crate) const FORMS: [Form; 3] = [Form::QuantizedL2, Form::QuantizedInnerProduct, Form::QuantizedCosine];

/// The forms of vectors of bits.
pub(crate) const FORMS_OF_BITS: [Form; 2] = [Form::Hamming, Form::Jaccard];

/// A margin wide enough that the interval matters and rounding does not.
pub(crate) const WIDE: Margin =
    Margin { relative: 0.03, floor: 0.25, centre_length: 1.5, centre_squared: 2.0 };
pub(crate) const NONE: Margin = Margin { relative: 0.0, floor: 0.0, centre_length: 0.0, centre_squared: 0.0 };

/// The candidate list of each query.
#[derive(Clone)]
pub(crate) struct Lists {
    pub(crate) counts: Vec<u32>,
    /// Slots, lower keys and upper keys: three planes of `[queries, capacity]`.
    pub(crate) words: Vec<u32>,
    pub(crate) capacity: usize,
}

impl Lists {
    /// Poisoned lists.
    pub(crate) fn new(queries: usize, capacity: usize) -> Self {
        Self { counts: vec![GUARD; queries], words: vec![GUARD; 3 * queries * capacity], capacity }
    }

    /// Lists without entries, to be filled.
    pub(crate) fn empty(queries: usize, capacity: usize) -> Self {
        Self { counts: vec![0; queries], ..Self::new(queries, capacity) }
    }

    /// Slot, lower and upper key.
    pub(crate) fn entry(&self, query: usize, place: usize) -> [u32; 3] {
        let plane = self.counts.len() * self.capacity;
        [0, 1, 2].map(|which| self.words[which * plane + query * self.capacity + place])
    }

    pub(crate) fn put(&mut self, query: usize, list: &[[u32; 3]]) {
        self.counts[query] = list.len() as u32;
        let plane = self.counts.len() * self.capacity;
        for (place, entry) in list.iter().enumerate() {
            (0..3).for_each(|which| self.words[which * plane + query * self.capacity + place] = entry[which]);
        }
    }

    /// The entries of a query, up to the capacity.
    pub(crate) fn of(&self, query: usize) -> Vec<[u32; 3]> {
        (0..self.capacity.min(self.counts[query] as usize)).map(|place| self.entry(query, place)).collect()
    }

    /// The entries of a query by their slots. Panics if a slot is there twice.
    pub(crate) fn by_slot(&self, query: usize) -> BTreeMap<u32, [u32; 3]> {
        let entries: BTreeMap<_, _> = self.of(query).into_iter().map(|entry| (entry[0], entry)).collect();
        assert_eq!(entries.len(), self.counts[query] as usize, "query {query}: each row once");
        entries
    }

    /// The slots of a query in ascending order.
    pub(crate) fn slots(&self, query: usize) -> Vec<u32> {
        let mut slots: Vec<u32> = self.of(query).iter().map(|entry| entry[0]).collect();
        slots.sort_unstable();
        slots
    }
}

/// Quantised queries and rows: small integers, so that intervals of [`WIDE`] overlap, with any terms, or bits with theirs.
pub(crate) struct Quantized {
    pub(crate) form: Form,
    pub(crate) dim: usize,
    pub(crate) margin: Margin,
    pub(crate) queries: Vec<Vec<i32>>,
    pub(crate) rows: Vec<Vec<i32>>,
    /// Of queries and of rows.
    pub(crate) terms: [Vec<Terms>; 2],
}

impl Quantized {
    pub(crate) fn new(random: &mut Random, form: Form, dim: usize, counts: [usize; 2]) -> Self {
        if FORMS_OF_BITS.contains(&form) {
            let [queries, rows] = counts.map(|count| bytes_of_bits(random, count, dim));
            let terms = [&queries, &rows]
                .map(|vectors| vectors.iter().map(|one| Terms::of_bits(common_bits(one, one))).collect());
            return Self { form, dim, margin: Margin::of_rounding(form, dim), queries, rows, terms };
        }
        let levels = (Quantizing::of(Metric::L2, dim).levels as usize).min(4);
        let [queries, rows] = counts.map(|count| integers(random, count, dim, levels));
        let terms = random_terms(random, form, counts);
        Self { form, dim, margin: WIDE, queries, rows, terms }
    }

    pub(crate) fn is_of_bits(&self) -> bool {
        FORMS_OF_BITS.contains(&self.form)
    }

    pub(crate) fn interval(&self, query: usize, row: usize) -> [f64; 2] {
        let (query_codes, row_codes) = (&self.queries[query], &self.rows[row]);
        let score = match self.is_of_bits() {
            true => f64::from(common_bits(query_codes, row_codes)),
            false => screen_tile_i8::reference(query_codes, row_codes) as f64,
        };
        self.margin.interval(self.form, score, self.terms[0][query], self.terms[1][row])
    }

    /// Checks a kernel that collects rows. `usable` are the slots that it may put on a query's list, from `first_slot` on; `collect` takes
    /// thresholds and the capacity of lists. Thresholds, which `cut` takes from the lower keys in ascending order, must drop exactly the
    /// rows whose lower end, as the kernel itself computes it, lies above them.
    pub(crate) fn check_collecting(
        &self,
        first_slot: u32,
        usable: impl Fn(usize) -> Vec<u32>,
        collect: impl Fn(&[u32], usize) -> Lists,
        cut: impl Fn(usize, &[u32]) -> u32,
    ) {
        let (queries, room) = (self.queries.len(), self.rows.len());
        let whole = collect(&vec![key_of(f32::MAX); queries], room);
        let said = |query: usize| format!("{:?}, dim {}, query {query}", self.form, self.dim);
        let (mut all, mut thresholds) = (vec![], vec![]);
        for query in 0..queries {
            let found = whole.by_slot(query);
            let mut slots = usable(query);
            slots.sort_unstable();
            assert!(found.keys().eq(&slots), "{}", said(query));
            for (&slot, entry) in &found {
                let interval = self.interval(query, (slot - first_slot) as usize);
                check_ends(*entry, interval, format_args!("{}, slot {slot}", said(query)));
            }
            let mut lowers: Vec<u32> = found.values().map(|entry| entry[1]).collect();
            lowers.sort_unstable();
            thresholds.push(cut(query, &lowers));
            all.push(found);
        }
        for capacity in [room, 9] {
            let lists = collect(&thresholds, capacity);
            for (query, rows) in all.iter().enumerate() {
                let mut found = lists.of(query);
                found.sort_unstable();
                let wanted: Vec<_> =
                    rows.values().copied().filter(|entry| entry[1] <= thresholds[query]).collect();
                assert_eq!(
                    lists.counts[query] as usize,
                    wanted.len(),
                    "{}: a full list goes on counting",
                    said(query)
                );
                if capacity == room {
                    assert_eq!(found, wanted, "{}", said(query));
                } else {
                    assert!(found.iter().all(|entry| wanted.contains(entry)), "{}", said(query));
                }
            }
        }
    }
}

/// Terms of quantised vectors.
pub(crate) fn random_terms(random: &mut Random, form: Form, counts: [usize; 2]) -> [Vec<Terms>; 2] {
    let mut one = || {
        let mut of = |most: usize, step: f32| random.below(most) as f32 * step;
        let [scale, length, residual] = [of(50, 0.01), of(90, 0.1), of(20, 0.02)];
        let bias = if form == Form::QuantizedL2 { length * length } else { of(60, 0.5) - 15.0 };
        Terms { scale, length, residual, bias }
    };
    counts.map(|count| (0..count).map(|_| one()).collect())
}

/// The most that computing an interval in f32 may round off.
pub(crate) fn slack(interval: [f64; 2]) -> f64 {
    interval[0].abs().max(interval[1].abs()).max(10.0) * 1e-5
}

/// Panics unless an entry holds the ends of this interval, up to the rounding of f32.
pub(crate) fn check_ends([_, lower, upper]: [u32; 3], interval: [f64; 2], said: impl Display) {
    let ends = [lower, upper].map(|key| f64::from(value_of(key)));
    let is_near = ends.iter().zip(interval).all(|(found, want)| (found - want).abs() <= slack(interval));
    assert!(is_near, "{said}: {ends:?}, not {interval:?}");
}

/// Whether a bitset has a slot.
pub(crate) fn has(words: &[u32], slot: u32) -> bool {
    words[slot as usize / 32] >> (slot % 32) & 1 == 1
}

/// About half of the slots of this many words.
pub(crate) fn bitset(words: u32) -> Vec<u32> {
    (0..words).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x1010).collect()
}
