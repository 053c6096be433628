//! Copies candidates of all queries into one list without gaps, for the host to read.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, buffers, params, wgsl};

params! {
    pub struct Params {
        queries: u32,
        /// Candidates that a query can have.
        capacity: u32,
        /// Words of a candidate: 1 for its slot, 2 with the lower end of its interval.
        words: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("compact")
    .library(&[GRID])
    .source(wgsl!("screen/compact"))
    .buffers(BUFFERS)
    .workgroup(64, 4);

buffers! {
    /// The candidates of each query, and where they go.
    pub(crate) struct Buffers<'a> {
        counts: Read BufferSlice<'a>,
        candidates: Read &'a Buffer,
        /// Words, `[1 + queries]`, of which `encode` clears the first.
        starts: Write &'a Buffer,
        compacted: Write &'a Buffer,
    }
}

pub(crate) fn encode(commands: &mut Commands<'_>, params: &Params, buffers: &Buffers<'_>) -> Result<()> {
    commands.clear(buffers.starts, 0, 4);
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// The candidates that each query gives, a word or two each: all of them, or none if it has more than its list holds.
pub fn reference(lists: &[&[u32]], counts: &[u32], capacity: u32) -> Vec<Vec<u32>> {
    let of = |(list, &count): (&&[u32], &u32)| match count > capacity {
        true => vec![],
        false => list.to_vec(),
    };
    lists.iter().zip(counts).map(of).collect()
}
