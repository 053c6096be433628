//! A threshold for each row from a sample of it, and how such a sample is taken.

use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::keys::KEYS;
use crate::matrix::ElementKind;

params! {
    /// Parameters of `select_sample`, `select_filter` and `select_row`.
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
        /// Elements of which each one held is the smallest.
        turns: u32,
        /// Elements of the sample that pass the threshold at least.
        fewest: u32,
        /// Elements of the sample that pass the threshold at most.
        most: u32,
        /// Entries of a list.
        capacity: u32,
        /// Vectors of four elements of a piece of a row.
        piece: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>(
    "select_sample",
    &[
        KEYS,
        wgsl!("lib/grid"),
        wgsl!("lib/states"),
        wgsl!("lib/passing"),
        wgsl!("lib/held"),
        wgsl!("lib/buckets"),
        wgsl!("lib/exact"),
        wgsl!("lib/scattered"),
        wgsl!("lib/sample"),
        wgsl!("select/select_sample"),
    ],
)
.buffers(&[("values", Access::Read), ("states", Access::Write)])
.overrides(&[("FLOATS", &[0, 1]), ("HELD", &[1, 4])])
.sums_lanes()
.workgroup(256, (512 + 32 + 128) * 4 + 5 * 16);

/// How a row is sampled, and what is expected of the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Vectors of four elements that an invocation holds, 1 or 4.
    pub(crate) held: u32,
    /// Elements of which each one held is the smallest.
    pub(crate) turns: u32,
    pub(crate) fewest: u32,
    pub(crate) most: u32,
    /// Elements of the row that pass, but for one row in a million of random ones.
    pub(crate) passing: u64,
}

impl Sample {
    /// What is held and the turns of the samples there are, in the order of their cost, and the shortest row of each.
    const CHOICES: [(u32, u32, u32); 8] = [
        (1, 1, 4096),
        (1, 4, 1 << 13),
        (4, 1, 1 << 12),
        (4, 4, 1 << 15),
        (4, 16, 1 << 20),
        (4, 64, 1 << 23),
        (4, 256, 1 << 26),
        (4, 1024, 1 << 28),
    ];

    /// The cheapest sample that lets no more than `room` of a row pass, or the one that lets the fewest.
    pub(crate) fn of(length: u32, k: u32, room: u64) -> Self {
        // A wide range of ranks is found sooner.
        let ranges = [4.0, 16.0];
        let there = Self::CHOICES.iter().filter(|choice| choice.2 <= length.max(4096));
        let mut samples = there
            .flat_map(|&(held, turns, _)| ranges.map(|range| Self::new(length, k, (held, turns), range)));
        let first = Self::new(length, k, (1, 1), 4.0);
        let fits = |sample: &Self| sample.passing <= room;
        let fewer = |best: Self, next: Self| if next.passing < best.passing { next } else { best };
        samples.clone().find(fits).unwrap_or_else(|| samples.by_ref().fold(first, fewer))
    }

    /// With a threshold of any rank from the smallest that will do to one `range`-th above.
    fn new(length: u32, k: u32, (held, turns): (u32, u32), range: f64) -> Self {
        let (length, k, slots) = (f64::from(length), f64::from(k), f64::from(1024 * held));
        let samples = slots * f64::from(turns);
        // How many of the k smallest the sample has, and five times how far that number spreads: the threshold is the rank
        // behind, so that in a million rows one lets fewer than k pass. A row that is sampled nearly whole leaves less to chance;
        // not nothing, because strata do not start where vectors do.
        let left = (1.0 - samples / length).max(0.35);
        let expected = k * samples / length;
        let fewest = (expected + 5.0 * (expected * (1.0 - k / length).max(0.0) * left).sqrt() + 8.0).ceil();
        let most = fewest + (fewest / range).floor() + 2.0;
        let upper = (most + 5.0 * (most * left).sqrt() + 8.0) * length / samples;
        // Of several small elements in one turn only one is held, which matters when many ranks are wanted.
        let crowded = if turns > 1 { 1.0 + 2.0 * most / slots } else { 1.0 };
        let is_useless = most > slots || (turns > 1 && most > slots / 8.0);
        let passing = if is_useless { length } else { (upper * crowded).ceil().min(length) };
        Self { held, turns, fewest: fewest as u32, most: most as u32, passing: passing as u64 }
    }

    /// The upper bound of what passes when a list of `count` entries in no order is sampled by 4,096 of them, as
    /// `wgsl/select_row.wgsl` does it.
    pub(crate) fn passing_of_list(count: u64, k: u32) -> u64 {
        let step = count as f64 / 4096.0;
        let expected = f64::from(k) / step;
        let fewest = (expected + 5.0 * expected.sqrt() + 8.0).ceil();
        let most = fewest + (fewest / 16.0).floor() + 2.0;
        ((most + 5.0 * most.sqrt() + 8.0) * step).ceil() as u64
    }
}

/// Records the kernel.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    (floats, held): (bool, u32),
    values: BufferSlice<'_>,
    states: BufferSlice<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[floats.into(), held])?;
    commands.dispatch(&pipeline, params, &[values, states], Grid::Linear(params.rows.into()))
}

/// The threshold that lets `wanted` of a sample pass: their largest element.
pub fn reference(sample: &[(u32, u32)], wanted: usize) -> Option<(u32, u32)> {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable();
    sorted.get(wanted.checked_sub(1)?).copied()
}
