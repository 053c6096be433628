//! Scores the rows of the lists that queries probe, query by query, and collects those that thresholds do not exclude.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, CANDIDATES, Commands, GRID, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::intervals::{INTERVALS, NARROWED_FORMS, params_with_margin};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::pages::{PROBES, SCREENED};

pub use crate::screen::certificate::{Form, Margin};

params_with_margin! {
    /// Parameters of `screen_probes`.
    pub struct Params {
        /// Granules of 16 dimensions per narrowed vector.
        granules: u32,
        /// Queries.
        queries: u32,
        /// Place of their terms, in vectors of four.
        query_terms: u32,
        /// Distance between the states of different kinds.
        room: u32,
        /// First of the lists of each query that are searched.
        first: u32,
        /// Their number.
        probes: u32,
        /// Lists that each query probes.
        stride: u32,
        /// Lists.
        lists: u32,
        /// Place of the tiles in the tables, in words.
        tiles: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Candidates that a query can have.
        capacity: u32,
        /// Candidates of all queries.
        plane: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_probes")
    .library(&[KEYS, GRID, INTERVALS, USABLE, CANDIDATES, SCREENED, PROBES])
    .source(wgsl!("lists/screen_probes", SHARE))
    .buffers(BUFFERS)
    .overrides(&[("FORM", NARROWED_FORMS), ("HAS_BITSET", &[0, 1])])
    .lengths(&[GRANULES])
    .workgroup(128, 64 * 16);

/// Workgroups that share the tiles of a list.
const SHARE: u32 = 2;

buffers! {
    /// Narrowed queries with their terms, the rows of a segment, the lists that queries probe, and where to put the rows that are kept.
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
        candidates: Write &'a Buffer,
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
    let workgroups = u64::from(params.queries) * u64::from(params.probes) * u64::from(SHARE);
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(workgroups))
}
