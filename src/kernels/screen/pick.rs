//! Puts the rows on the queries' lists that the best intervals of a scan do not exclude.

use crate::error::Result;
use crate::gpu::{Buffer, CANDIDATES, Commands, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::{Part, SCORES};
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::screen::screen_scan_i8::Scan;
use crate::kernels::screen::tighten::{DIGITS, FEW, RADIX, ROUNDED_BITS, SHORT, radix, threshold_of};
use crate::metric::Form;

pub use crate::kernels::screen::screen_scan_i8::Params;

/// The declaration. Its parameters are those of `screen_scan_i8`.
pub static KERNEL: Kernel = Kernel::new::<Params>("pick")
    .library(&[KEYS, SCORES, INTERVALS, USABLE, CANDIDATES, DIGITS])
    .source(wgsl!("screen/pick", ROUNDED_BITS))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::QUANTIZED), ("HAS_BITSET", &[0, 1]), RADIX])
    .workgroup(256, (2048 + SHORT + 1024) * 4 + 8 + 4);

buffers! {
    /// The scores of a scan, and the candidates.
    pub(crate) struct Buffers<'a> {
        scores: Read &'a Buffer,
        best: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        query_terms: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read &'a Buffer,
        thresholds: Write &'a Buffer,
        counts: Write &'a Buffer,
        candidates: Write &'a Buffer,
    }
}

/// The lists that rows are put on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picked<'a> {
    pub(crate) queries: u32,
    pub(crate) k: u32,
    pub(crate) thresholds: &'a Buffer,
    pub(crate) counts: &'a Buffer,
    pub(crate) candidates: &'a Buffer,
    /// Candidates that a list holds.
    pub(crate) capacity: u32,
    /// Where queries are rows, and each row has a list: the slot of the first query, and how many lists there are.
    pub(crate) pairs: Option<[u32; 2]>,
}

/// Workgroups of all queries together: enough to fill a large GPU.
const WORKGROUPS: u32 = 128;
/// Workgroups of a query, at most: each finds the threshold for itself.
const WORKGROUPS_EACH: u32 = 16;

/// Records the kernel for a part of the scores, which hold `room` queries. Thresholds and candidates of other parts and of earlier
/// scores are there already.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (scores, room): (&Buffer, u32),
    scan: &Scan<'_>,
    part: Part,
    into: &Picked<'_>,
) -> Result<()> {
    let &Picked { queries, k, thresholds, counts, candidates, capacity, .. } = into;
    let constants = [scan.form as u32, scan.allowed.is_some().into(), radix(into.k)];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let plane = queries * capacity;
    let params = Params { queries, part_blocks: part.blocks, k, capacity, plane, ..scan.params(room, part) };
    let &Scan { best, row_terms, query_terms, .. } = scan;
    let allowed = scan.allowed.unwrap_or(query_terms);
    let workgroups = (WORKGROUPS / queries.max(1)).clamp(1, WORKGROUPS_EACH);
    let workgroups = commands.gpu().workgroups_each(queries, workgroups);
    let buffers = Buffers { scores, best, row_terms, query_terms, allowed, thresholds, counts, candidates };
    commands.dispatch(&pipeline, &params, &buffers.slices(), Grid::Tiles(workgroups, queries))
}

/// The threshold and the slots that stay, from the lower and upper keys of each block's rows, `(slot, lower key, upper key)`.
pub fn reference(threshold: u32, blocks: &[Vec<(u32, u32, u32)>], k: usize) -> (u32, Vec<u32>) {
    let best = |block: &Vec<(u32, u32, u32)>| block.iter().map(|row| row.2).min();
    let uppers: Vec<u32> = blocks.iter().filter_map(best).collect();
    let upper = threshold_of(&uppers, k, k <= FEW as usize);
    let threshold = upper.map_or(threshold, |upper| threshold.min(upper));
    let staying = blocks.iter().flatten().filter(|row| row.1 <= threshold);
    (threshold, staying.map(|row| row.0).collect())
}
