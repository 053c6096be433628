//! Keeps the rows, of all that were scored for a query, that can be among its k nearest, and finds a threshold for other rows.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::BLOCK_ROWS;
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::screen::tighten::{DIGITS, RADIX, SHORT, radix};

pub use crate::kernels::screen::screen_scan_i8::{Form, Margin, Params};

/// The declaration. Its parameters are those of `screen_scan_i8`.
pub static KERNEL: Kernel = Kernel::new::<Params>("winnow")
    .library(&[KEYS, GRID, INTERVALS, USABLE, DIGITS])
    .source(wgsl!("screen/winnow", BLOCK_ROWS))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::QUANTIZED), ("HAS_BITSET", &[0, 1]), RADIX])
    .workgroup(256, (2048 + SHORT) * 4 + 8 + 32 + 4);

/// The largest k. A workgroup keeps four times as many upper ends, so that the nearest rows rarely compete for one.
pub const K_MAX: u32 = 512;

buffers! {
    /// Scores of quantised vectors, and the rows that are kept.
    pub(crate) struct Buffers<'a> {
        scores: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        query_terms: Read &'a Buffer,
        counts: Write BufferSlice<'a>,
        thresholds: Write BufferSlice<'a>,
        candidates: Write &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read &'a Buffer,
    }
}

/// Records the kernel. `has_bits` if `allowed` has a bit for each slot.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (form, has_bits): (Form, bool),
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[form as u32, has_bits.into(), radix(params.k)])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// The rows that must be kept, by their intervals `[lower, upper]`: those whose lower end is not above the k-th smallest upper
/// end. The kernel may keep more.
pub fn reference(intervals: &[[f64; 2]], k: usize) -> Vec<usize> {
    let mut uppers: Vec<f64> = intervals.iter().map(|ends| ends[1]).collect();
    uppers.sort_unstable_by(f64::total_cmp);
    let threshold = uppers.get(k - 1).copied().unwrap_or(f64::INFINITY);
    (0..intervals.len()).filter(|&row| intervals[row][0] <= threshold).collect()
}
