//! Computes where the pairs of each list start, and where its blocks of scores start.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};

params! {
    /// Parameters of `list_work`.
    pub struct Params {
        /// Lists.
        lists: u32,
        /// Queries of a block of scores.
        height: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("list_work")
    .source(wgsl!("lists/list_work"))
    .buffers(&[("counts", Access::Read), ("list_tiles", Access::Read), ("starts", Access::Write)])
    .workgroup(256, 256 * 8);

/// Records the kernel. The number of blocks must stay below 2^32.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (lists, height): (u32, u32),
    counts: &Buffer,
    list_tiles: &Buffer,
    starts: &Buffer,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let buffers = [counts.into(), list_tiles.into(), starts.into()];
    commands.dispatch(&pipeline, &Params { lists, height }, &buffers, Grid::Linear(1))
}

/// The starts of pairs and of blocks, one more than lists.
pub fn reference(counts: &[u32], tiles: &[u32], height: u32) -> Vec<[u32; 2]> {
    let mut starts = vec![[0, 0]];
    let mut end = [0, 0];
    for (&count, &tiles) in counts.iter().zip(tiles) {
        end = [end[0] + count, end[1] + count.div_ceil(height) * tiles];
        starts.push(end);
    }
    starts
}
