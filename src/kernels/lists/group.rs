//! Groups queries by the lists they probe.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, buffers, params, wgsl};
use crate::kernels::pages::{HEADER, PAGES};

params! {
    /// Parameters of `group` and `list_work`.
    pub struct Params {
        queries: u32,
        /// First of the lists of each query that are searched.
        first: u32,
        /// Their number.
        probes: u32,
        /// Lists that each query probes.
        stride: u32,
        lists: u32,
        /// Place of the tiles in the tables, in words.
        tiles: u32,
        /// Queries of a block.
        height: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("group")
    .library(&[GRID])
    .source(wgsl!("lists/group", HEADER, PAGES = PAGES))
    .buffers(BUFFERS)
    .overrides(&[("PLACE", &[0, 1])])
    .workgroup(256, 0);

buffers! {
    /// The lists that queries probe, and the table of blocks.
    pub(crate) struct Buffers<'a> {
        /// Lists, u64, `[queries, stride]`.
        probed: Read &'a Buffer,
        counts: Write BufferSlice<'a>,
        ranks: Write &'a Buffer,
        starts: Read &'a Buffer,
        tables: Read &'a Buffer,
        blocks: Write &'a Buffer,
    }
}

/// Records the counting of queries or, with `place`, their placing.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    place: bool,
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[place.into()])?;
    let pairs = u64::from(params.queries) * u64::from(params.probes);
    let workgroups = pairs.div_ceil(KERNEL.workgroup_size.into());
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(workgroups))
}

/// The queries of each list, in order, from the lists that each query probes.
pub fn reference(probed: &[Vec<u32>], lists: usize) -> Vec<Vec<u32>> {
    let mut grouped = vec![vec![]; lists];
    for (query, probes) in (0..).zip(probed) {
        probes.iter().for_each(|&list| grouped[list as usize].push(query));
    }
    grouped
}

/// The table of blocks with up to `height` queries, from the queries of each list and the pages of its tiles.
pub fn table(grouped: &[Vec<u32>], tiles: &[Vec<[u32; PAGES]>], height: usize) -> Vec<u32> {
    let mut words = vec![0; HEADER as usize];
    for (queries, tiles) in grouped.iter().zip(tiles) {
        for queries in queries.chunks(height) {
            for pages in tiles {
                words[0] += 1;
                // Places without a query are never read.
                words.extend(queries);
                words.resize(words.len() + height - queries.len(), u32::MAX);
                words.extend(pages);
                words.push(queries.len() as u32);
            }
        }
    }
    words
}
