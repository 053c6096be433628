//! Scores the rows of the lists that queries probe, query by query, and collects those that thresholds do not exclude.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, CANDIDATES, Commands, GRID, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::GRANULE_PLACES;
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::lists::screening::OVERRIDES;
use crate::kernels::pages::{PROBES, SCREENED};

pub use crate::kernels::lists::screening::{Form, Params};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_probes")
    .library(&[KEYS, GRID, INTERVALS, USABLE, CANDIDATES, GRANULE_PLACES, SCREENED, PROBES])
    .source(wgsl!("lists/screen_probes", SHARE))
    .buffers(BUFFERS)
    .overrides(OVERRIDES)
    .lengths(&[GRANULES])
    .workgroup(128, 64 * 16);

/// Workgroups that share the tiles of a list.
const SHARE: u32 = 2;

buffers! {
    /// Quantised queries with their terms, the rows of a segment, the lists that queries probe, and where to put the rows that are kept.
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
