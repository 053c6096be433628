//! Computes where the blocks of each list start.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Grid, Kernel, wgsl};

pub use crate::kernels::lists::group::Params;

/// The declaration. Of the parameters of `group` it reads `lists` and `height`.
pub static KERNEL: Kernel = Kernel::new::<Params>("list_work")
    .source(wgsl!("lists/list_work"))
    .buffers(bindings!(counts: Read, tables: Read, starts: Write))
    .workgroup(256, 256 * 4);

/// Records the kernel. The number of blocks must stay below 2^32.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (lists, height): (u32, u32),
    counts: BufferSlice<'_>,
    tables: &Buffer,
    starts: &Buffer,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let params = Params { lists, height, ..Params::default() };
    commands.dispatch(&pipeline, &params, &[counts, tables.into(), starts.into()], Grid::Linear(1))
}

/// The first block of each list, and the number of all blocks.
pub fn reference(counts: &[u32], tiles: &[u32], height: u32) -> Vec<u32> {
    let mut starts = vec![0];
    let mut end = 0;
    for (&count, &tiles) in counts.iter().zip(tiles) {
        end += count.div_ceil(height) * tiles;
        starts.push(end);
    }
    starts
}
