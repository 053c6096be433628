//! Takes each query's first threshold from some rows of its nearest lists.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::intervals::{INTERVALS, NARROWED_FORMS, params_with_margin};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::pages::{PROBES, SCREENED};
use crate::kernels::screen::tighten::{DIGITS, ROUNDED_BITS, SHORT};

pub use crate::screen::certificate::{Form, Margin};

params_with_margin! {
    /// Parameters of `probe_thresholds`.
    pub struct Params {
        /// Granules of 16 dimensions per narrowed vector.
        granules: u32,
        /// Queries.
        queries: u32,
        /// Place of their terms, in vectors of four.
        query_terms: u32,
        /// Distance between the states of different kinds.
        room: u32,
        /// Neighbours wanted.
        k: u32,
        /// Lists of each query that are looked at: 1, 2 or 4.
        probes: u32,
        /// Lists that each query probes.
        stride: u32,
        /// Lists.
        lists: u32,
        /// Place of the tiles in the tables, in words.
        tiles: u32,
        /// Rows that are enough for a threshold, unless the lists are long.
        wanted: u32,
        /// The most turns of four pages.
        turns: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// 1: there are no thresholds yet.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("probe_thresholds")
    .library(&[KEYS, GRID, INTERVALS, USABLE, DIGITS, SCREENED, PROBES])
    .source(wgsl!("lists/probe_thresholds", UPPERS, LONG, SHARE, ROUNDED_BITS))
    .buffers(BUFFERS)
    .overrides(&[("FORM", NARROWED_FORMS), ("HAS_BITSET", &[0, 1])])
    .lengths(&[GRANULES])
    .workgroup(EXACT as u32, (UPPERS + 2048 + SHORT) * 4 + 64 * 16 + 8 + 4);

/// Of up to this many rows, the threshold is exactly the k-th smallest upper key.
const EXACT: usize = 128;

/// Rows of a query that can count. The threshold for a larger k would need more.
pub const UPPERS: u32 = 1024;

/// Lists with more rows than this together are long.
pub const LONG: u32 = 4096;

/// The threshold of long lists is taken from one row in this many, if those are more than the rows wanted otherwise.
pub const SHARE: u32 = 3;

buffers! {
    /// Narrowed queries with their terms, the rows of a segment, and the lists that queries probe.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read BufferSlice<'a>,
        states: Write &'a Buffer,
        /// Lists, u64, `[queries, stride]`.
        probed: Read &'a Buffer,
        tables: Read &'a Buffer,
    }
}

/// Records the kernel. `has_bits` if `allowed` has a bit for each slot.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (form, has_bits): (Form, bool),
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[form as u32, has_bits.into()])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// The threshold from the upper keys of the rows that were looked at: the k-th smallest, of many rows its highest 22 bits, and ones.
/// None for fewer rows.
pub fn reference(uppers: &[u32], k: usize) -> Option<u32> {
    let mut uppers = uppers.to_vec();
    uppers.sort_unstable();
    let rounded = if uppers.len() > EXACT { ROUNDED_BITS } else { 0 };
    uppers.get(k - 1).map(|upper| upper | rounded)
}
