//! How rows are sorted by splitters: a sample's elements divide a row into buckets, each of which a workgroup sorts.

use crate::gpu::params;
use crate::kernels::select::select_k::SORTED_MAX;
use crate::kernels::select::select_sample::Sample;

params! {
    /// Parameters of `sample_runs`, `scatter_buckets` and `sort_buckets`.
    pub struct Params {
        /// Rows.
        rows: u32,
        /// Elements a row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Elements wanted.
        k: u32,
        /// Distance between the results of two rows.
        selected_pitch: u32,
        /// 1 when rows have thresholds already, and what lies above them is left out.
        is_filtered: u32,
        /// Parts of a sample, each with a run of 1,024 entries.
        parts: u32,
        /// Elements of a part that an invocation looks at, a multiple of four.
        turns: u32,
        /// Rank in the sample, from 1 on, of what the last bucket ends with; more than the sample has when it is to have all.
        wanted: u32,
        /// Buckets of a row.
        buckets: u32,
        /// Elements of a piece of a row, a multiple of 4,096.
        piece: u32,
        /// The splitters in workgroup memory are every 2^shift-th.
        shift: u32,
        /// The step with which those are searched first, a power of two, or 0 when there are none.
        first_step: u32,
    }
}

/// Splitters that workgroup memory has room for.
pub(crate) const SPLITTERS: u32 = 512;

/// Entries that a bucket has room for.
pub(crate) const BUCKET_ROOM: u32 = 1024;

/// Elements that a workgroup has in flight.
pub(crate) const BATCH: u32 = 16 * 256;

/// Workgroups that keep a large card busy, with some to spare.
const WORKGROUPS: u64 = 2048;

/// Elements of a piece of a row: as many as leave the card busy, because a workgroup loads all splitters.
pub(crate) fn piece(selection: &Params) -> u32 {
    let batches = u64::from(selection.rows) * u64::from(selection.length.div_ceil(BATCH));
    BATCH * (batches / WORKGROUPS).clamp(1, 8) as u32
}

/// Entries of a sorted run of a sample.
const RUN: f64 = SORTED_MAX as f64;

/// How densely a row is sampled, and how full its buckets are. Elements between two splitters are as many as lie in so many
/// independent gaps of the sample, and a bucket has too many when a Poisson variable with as many times the mean as it has room
/// for its usual content is smaller than that: for both choices once in a hundred million buckets.
#[derive(Debug, Clone, Copy)]
struct Density {
    /// Elements of a bucket on average. It has room for 1,024.
    fill: f64,
    /// Elements of the sample to one bucket.
    oversampled: f64,
}

/// Where most of a row is wanted the sample is a small part of the work, and full buckets are sorted sooner.
const DENSE: Density = Density { fill: 448.0, oversampled: 36.0 };

/// Where little of a row is wanted the sample is most of the work: it touches eight times the memory that it looks at.
const SPARSE: Density = Density { fill: 256.0, oversampled: 13.0 };

/// Entries of a run that are expected at most. More than 1,024 do no harm, but are lost to the sample.
const EXPECTED: f64 = 960.0;

/// Elements of a row that one workgroup looks at for its run, at most.
const LOOKED_AT: f64 = 16384.0;

/// How a row is sorted by splitters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleSort {
    /// The smaller sample of which the larger one is filtered, when most of the row is not wanted.
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
        // Most of such a sample would be sorted in vain.
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
        // The rank that lets fewer than k pass in one row of a million: five times as far as the number of the k smallest in the
        // sample spreads.
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

    /// The parameters of the three kernels, from those that say what is selected.
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
