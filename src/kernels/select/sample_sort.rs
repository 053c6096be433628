//! Plans how rows are sorted by splitters: elements of a sample divide a row into buckets, and a workgroup sorts each bucket.

use crate::gpu::params;
use crate::kernels::select::select_k::SORTED_MAX;
use crate::kernels::select::select_sample::{Sample, batches_of_a_piece};

params! {
    /// Parameters of `sample_runs`, `scatter_buckets` and `sort_buckets`.
    pub struct Params {
        rows: u32,
        /// Elements per row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Elements wanted.
        k: u32,
        /// Distance between the results of two rows.
        selected_pitch: u32,
        /// 1 if rows have thresholds already; elements above them are left out.
        is_filtered: u32,
        /// Parts of a sample, each with a run of 1,024 entries.
        parts: u32,
        /// Elements of a part that an invocation reads, a multiple of four.
        turns: u32,
        /// Rank in the sample, from 1 on, of the last bucket's last element; larger than the sample if all elements are wanted.
        wanted: u32,
        /// Buckets of a row.
        buckets: u32,
        /// Elements of a piece of a row, a multiple of 4,096.
        piece: u32,
        /// The splitters in workgroup memory are every 2^shift-th.
        shift: u32,
        /// The first step of the search among them, a power of two; 0 if there are none.
        first_step: u32,
    }
}

/// Splitters that workgroup memory has room for.
pub(crate) const SPLITTERS: u32 = 512;

/// Entries that a bucket has room for.
pub(crate) const BUCKET_ROOM: u32 = 1024;

/// Elements that a workgroup has in flight.
pub(crate) const BATCH: u32 = 16 * 256;

/// Elements of a piece of a row. Each workgroup loads all splitters, so pieces are as large as a busy GPU allows.
pub(crate) fn piece(selection: &Params) -> u32 {
    let batches = u64::from(selection.rows) * u64::from(selection.length.div_ceil(BATCH));
    BATCH * batches_of_a_piece(batches)
}

/// Entries of a sorted run of a sample.
const RUN: f64 = SORTED_MAX as f64;

/// How densely a row is sampled, and how full its buckets are. The elements between two splitters fill `oversampled` independent
/// gaps of the sample. A bucket overflows if a Poisson variable with `BUCKET_ROOM / fill` times that mean is smaller than it: for
/// both choices once in a hundred million buckets.
#[derive(Debug, Clone, Copy)]
struct Density {
    /// Elements of a bucket on average; it has room for [`BUCKET_ROOM`].
    fill: f64,
    /// Elements of the sample per bucket.
    oversampled: f64,
}

/// For most of a row: the sample is a small part of the work, and full buckets are sorted faster.
const DENSE: Density = Density { fill: 448.0, oversampled: 36.0 };

/// For a small part of a row: the sample is most of the work, because it touches eight times the memory that it reads.
const SPARSE: Density = Density { fill: 256.0, oversampled: 13.0 };

/// The most entries expected in a run. Entries beyond its room are lost to the sample, which does no other harm.
const EXPECTED: f64 = 960.0;

/// The most elements of a row that one workgroup reads for its run.
const LOOKED_AT: f64 = 16384.0;

/// A plan to sort rows by splitters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleSort {
    /// The smaller sample whose threshold filters the larger one, if most of the row is not wanted.
    pub(crate) filter: Option<Sample>,
    pub(crate) parts: u32,
    turns: u32,
    wanted: u32,
    pub(crate) buckets: u32,
}

impl SampleSort {
    /// For the k smallest of rows of `length` elements, more than 4,096.
    pub(crate) fn of(length: u32, k: u32) -> Self {
        let parts = |density: Density| (f64::from(length) * density.oversampled / density.fill / RUN).ceil();
        let plain = Self::new(length, k, (parts(DENSE), 4.0), DENSE, None);
        if plain.parts == 1 || 2.0 * f64::from(plain.wanted) > RUN * f64::from(plain.parts) {
            return plain;
        }
        // Most of such a sample would be sorted in vain, so it is filtered.
        let filter = Sample::of(length, k, 2 * u64::from(k));
        let whole = RUN * parts(SPARSE);
        let each = (EXPECTED * f64::from(length) / filter.passing as f64).min(LOOKED_AT).min(whole);
        let turns = 4.0 * (each / RUN).floor().max(1.0);
        Self::new(length, k, ((whole / (256.0 * turns)).ceil(), turns), SPARSE, Some(filter))
    }

    fn new(
        length: u32,
        k: u32,
        (parts, turns): (f64, f64),
        density: Density,
        filter: Option<Sample>,
    ) -> Self {
        let (n, wanted) = (f64::from(length), f64::from(k));
        let samples = parts * turns * 256.0;
        // The rank that lets fewer than k pass in one row of a million: five standard deviations above the expected number of the k
        // smallest in the sample.
        let expected = wanted * samples / n;
        let rank = (expected + 5.0 * (expected * (1.0 - wanted / n).max(0.0)).sqrt() + 8.0).ceil();
        let is_all = k >= length || rank >= samples;
        let passing = if is_all { n } else { rank * n / samples };
        Self {
            filter,
            parts: parts as u32,
            turns: turns as u32,
            wanted: if is_all { u32::MAX } else { rank as u32 },
            buckets: (passing / density.fill).ceil() as u32,
        }
    }

    /// Entries of a row's sample.
    pub(crate) fn entries(&self) -> u32 {
        self.parts * SORTED_MAX
    }

    /// The parameters of the three kernels, completed from those that describe the selection.
    pub(crate) fn params(&self, selection: Params) -> Params {
        let (piece, shift) = (piece(&selection), self.shift());
        let searched = self.buckets.div_ceil(1 << shift);
        Params {
            is_filtered: self.filter.is_some().into(),
            parts: self.parts,
            turns: self.turns,
            wanted: self.wanted,
            buckets: self.buckets,
            piece,
            shift,
            first_step: searched.next_power_of_two() / 2,
            ..selection
        }
    }

    fn shift(&self) -> u32 {
        self.buckets.div_ceil(SPLITTERS).next_power_of_two().trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::{SORTED_MAX, SPLITTERS, SampleSort};

    #[test]
    fn every_stratum_has_an_element_and_every_bucket_its_share() {
        for length in
            [4097, 5000, 12_001, 13_000, 30_001, 65_537, 100_000, 1_000_000, 1 << 24, (1 << 24) + 77]
        {
            for part in [1 << 14, 1000, 37, 10, 4, 2, 1] {
                for k in [length / part, length - length / part, length] {
                    let plan = SampleSort::of(length, k.max(1));
                    let said = format!("{k} of {length}: {plan:?}");
                    assert!(plan.parts * plan.turns * 256 <= length, "{said}");
                    assert!(plan.turns.is_multiple_of(4) && plan.turns > 0 && plan.buckets > 0, "{said}");
                    let passing =
                        f64::from(plan.wanted) * f64::from(length) / f64::from(plan.parts * plan.turns * 256);
                    let passing = if plan.wanted == u32::MAX { f64::from(length) } else { passing };
                    assert!(passing >= f64::from(k) && passing <= f64::from(length), "{said}");
                    assert!(passing / f64::from(plan.buckets) <= 448.0, "{said}");
                    assert!(plan.buckets.div_ceil(1 << plan.shift()) <= SPLITTERS, "{said}");
                    assert_eq!(plan.entries(), plan.parts * SORTED_MAX, "{said}");
                }
            }
        }
    }
}
