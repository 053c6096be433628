//! Takes each query's first threshold from some rows of its nearest lists.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::GRANULE_PLACES;
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::lists::screening::OVERRIDES;
use crate::kernels::pages::{PROBES, SCREENED};
use crate::kernels::screen::tighten::{DIGITS, ROUNDED_BITS, SHORT};

pub use crate::kernels::lists::screening::{Form, Params};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("probe_thresholds")
    .library(&[KEYS, GRID, INTERVALS, USABLE, DIGITS, GRANULE_PLACES, SCREENED, PROBES])
    .source(wgsl!("lists/probe_thresholds", UPPERS, LONG, SHARE, ROUNDED_BITS))
    .buffers(BUFFERS)
    .overrides(OVERRIDES)
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
    /// Quantised queries with their terms, the rows of a segment, and the lists that queries probe.
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
