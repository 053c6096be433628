//! A threshold for each row from a sample of it, and the plan of such samples.

use crate::error::Result;
use crate::gpu::{
    BufferSlice, Commands, EXACT, GRID, Grid, Kernel, PASSING, SAMPLE, SCATTERED, STATES, params, wgsl,
};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;

params! {
    /// Parameters of `select_sample`, `select_filter` and `select_row`.
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
        /// Elements that each held one is the smallest of.
        turns: u32,
        /// The fewest elements of the sample that pass the threshold.
        fewest: u32,
        /// The most elements of the sample that pass the threshold.
        most: u32,
        /// Entries of a list.
        capacity: u32,
        /// Vectors of four elements of a piece of a row.
        piece: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("select_sample")
    .library(&[KEYS, GRID, STATES, PASSING, HELD, COUNTED, EXACT, SCATTERED, SAMPLE])
    .source(wgsl!("select/select_sample"))
    .buffers(bindings!(values: Read, states: Write))
    .overrides(&[("FLOATS", &[0, 1]), ("HELD", &[1, 4])])
    .sums_lanes()
    .fits_registers()
    .workgroup(256, HELD_BYTES + 5 * 16);

/// A plan to sample rows, and what to expect of the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Vectors of four elements that an invocation holds, 1 or 4.
    pub(crate) held: u32,
    /// Elements that each held one is the smallest of.
    pub(crate) turns: u32,
    pub(crate) fewest: u32,
    pub(crate) most: u32,
    /// The most elements of a row that pass, exceeded in one of a million random rows.
    pub(crate) passing: u64,
}

impl Sample {
    /// Vectors held, turns, and the shortest row of each kind of sample, in the order of their cost.
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

    /// The cheapest sample that lets at most `room` elements of a row pass, or the one that lets the fewest pass.
    pub(crate) fn of(length: u32, k: u32, room: u64) -> Self {
        // A threshold is found sooner in a wide range of ranks.
        let ranges = [4.0, 16.0];
        let there = Self::CHOICES.iter().filter(|choice| choice.2 <= length.max(4096));
        let mut samples = there
            .flat_map(|&(held, turns, _)| ranges.map(|range| Self::new(length, k, (held, turns), range)));
        let first = Self::new(length, k, (1, 1), 4.0);
        let fits = |sample: &Self| sample.passing <= room;
        let fewer = |best: Self, next: Self| if next.passing < best.passing { next } else { best };
        samples.clone().find(fits).unwrap_or_else(|| samples.by_ref().fold(first, fewer))
    }

    /// A sample whose threshold has any rank from the smallest that suffices to one `range`-th above.
    fn new(length: u32, k: u32, (held, turns): (u32, u32), range: f64) -> Self {
        let (length, k, slots) = (f64::from(length), f64::from(k), f64::from(1024 * held));
        let samples = slots * f64::from(turns);
        // The expected number of the k smallest in the sample, and five standard deviations more: the threshold is the rank
        // behind, so that one row in a million lets fewer than k pass. A row that is sampled nearly whole leaves less to chance,
        // but not nothing, because strata do not start where vectors do.
        let left = (1.0 - samples / length).max(0.35);
        let expected = k * samples / length;
        let fewest = (expected + 5.0 * (expected * (1.0 - k / length).max(0.0) * left).sqrt() + 8.0).ceil();
        let most = fewest + (fewest / range).floor() + 2.0;
        let upper = (most + 5.0 * (most * left).sqrt() + 8.0) * length / samples;
        // Only one of several small elements of a turn is held, which matters when many ranks are wanted.
        let crowded = if turns > 1 { 1.0 + 2.0 * most / slots } else { 1.0 };
        let is_useless = most > slots || (turns > 1 && most > slots / 8.0);
        let passing = if is_useless { length } else { (upper * crowded).ceil().min(length) };
        Self { held, turns, fewest: fewest as u32, most: most as u32, passing: passing as u64 }
    }

    /// An upper bound of the entries that pass if a list of `count` entries in no order is sampled by 4,096 of them, as
    /// `select_row` does it.
    pub(crate) fn passing_of_list(count: u64, k: u32) -> u64 {
        let step = count as f64 / 4096.0;
        let expected = f64::from(k) / step;
        let fewest = (expected + 5.0 * expected.sqrt() + 8.0).ceil();
        let most = fewest + (fewest / 16.0).floor() + 2.0;
        ((most + 5.0 * most.sqrt() + 8.0) * step).ceil() as u64
    }
}

/// Workgroups that fill a large GPU, with some to spare.
const WORKGROUPS: u64 = 2048;

/// Batches of a piece of a row, so that about [`WORKGROUPS`] workgroups share `batches`, but at most 8 each.
pub(crate) fn batches_of_a_piece(batches: u64) -> u32 {
    (batches / WORKGROUPS).clamp(1, 8) as u32
}

pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    (floats, held): (bool, u32),
    values: BufferSlice<'_>,
    states: BufferSlice<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[floats.into(), held])?;
    commands.dispatch(&pipeline, params, &[values, states], Grid::Linear(params.rows.into()))
}
