//! Groups pairs of queries and the lists they probe by list.

use crate::error::Result;
use crate::gpu::{Buffer, Commands, GRID, Grid, Kernel, buffers, params, wgsl};

params! {
    /// Parameters of `group`.
    pub struct Params {
        /// Pairs.
        pairs: u32,
        /// Lists that a query probes.
        probes: u32,
        /// Lists.
        lists: u32,
        /// Queries of a block of scores.
        height: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("group")
    .library(&[GRID])
    .source(wgsl!("lists/group"))
    .buffers(BUFFERS)
    .overrides(&[("PLACE", &[0, 1])])
    .workgroup(256, 0);

buffers! {
    /// Queries, the lists they probe, and where they go.
    pub(crate) struct Buffers<'a> {
        /// Lists, u64, `[queries, probes]`.
        probed: Read &'a Buffer,
        counts: Write &'a Buffer,
        ranks: Write &'a Buffer,
        starts: Read &'a Buffer,
        list_tiles: Read &'a Buffer,
        grouped: Write &'a Buffer,
        pairs: Write &'a Buffer,
    }
}

/// Records the counting of pairs or, with `place`, their placing.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    place: bool,
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[place.into()])?;
    let workgroups = params.pairs.div_ceil(KERNEL.workgroup_size);
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(workgroups.into()))
}

/// The queries of each list, in order, from the lists that each query probes.
pub fn reference(probed: &[Vec<u32>], lists: usize) -> Vec<Vec<u32>> {
    let mut grouped = vec![vec![]; lists];
    for (query, probes) in (0..).zip(probed) {
        probes.iter().for_each(|&list| grouped[list as usize].push(query));
    }
    grouped
}
