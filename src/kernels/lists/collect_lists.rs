//! Scores the rows of lists for the queries that probe them, and collects those that thresholds do not exclude.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, CANDIDATES, Commands, Grid, KEEP_ROW, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES};
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::lists::screening::OVERRIDES;
use crate::kernels::pages::{LIST_BLOCKS, SCREENED};

pub use crate::kernels::lists::screening::{Form, Params};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_lists")
    .library(&[KEYS, INTERVALS, USABLE, CANDIDATES, GRANULE_PLACES, SCREENED, KEEP_ROW, LIST_BLOCKS])
    .source(wgsl!("lists/collect_lists", BLOCK_ROWS, HEIGHT = BLOCK_QUERIES, PAIRS = 0))
    .buffers(BUFFERS)
    .fits_registers()
    .overrides(OVERRIDES)
    .lengths(&[GRANULES])
    .workgroup(64, BLOCK_QUERIES * (32 * 16 + 32));

/// The most queries of a block.
const BLOCK_QUERIES: u32 = 8;

/// A kernel that collects from lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListKernel {
    pub(crate) kernel: &'static Kernel,
    /// The most queries of a block.
    pub(crate) height: u32,
}

/// This kernel.
pub(crate) const LISTS: ListKernel = ListKernel { kernel: &KERNEL, height: BLOCK_QUERIES };

buffers! {
    /// Quantised queries with their terms, the rows of a segment, the blocks to score, and where to put the rows that are kept.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read BufferSlice<'a>,
        states: Write &'a Buffer,
        blocks: Read &'a Buffer,
        candidates: Write &'a Buffer,
    }
}

/// Workgroups that fill a large GPU; each computes one block after the other.
const WORKGROUPS: u64 = 8192;

/// Records one of the kernels. There are at most `most` blocks. `has_bits` if `allowed` has a bit for each slot.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    kernel: ListKernel,
    (form, has_bits): (Form, bool),
    params: &Params,
    buffers: &Buffers<'_>,
    most: u64,
) -> Result<()> {
    let ListKernel { kernel, height } = kernel;
    let height = kernel.heights().contains(&height).then_some(height);
    let constants: Vec<u32> = [form as u32, has_bits.into()].into_iter().chain(height).collect();
    let pipeline = commands.gpu().pipeline(kernel, &constants)?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Tiles(most.min(WORKGROUPS) as u32, 1))
}
