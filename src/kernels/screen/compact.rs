//! Copies the entries of all queries' lists into one list without gaps, for the host to read.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, buffers, params, wgsl};

params! {
    pub struct Params {
        queries: u32,
        /// Entries that a query can have.
        capacity: u32,
        /// Words of an entry, 1 to 3.
        words: u32,
        /// Where the words behind the first begin in their buffer.
        offset: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("compact")
    .library(&[GRID])
    .source(wgsl!("screen/compact"))
    .buffers(BUFFERS)
    .workgroup(64, 4);

buffers! {
    /// The entries of each query, and where they go.
    pub(crate) struct Buffers<'a> {
        counts: Read BufferSlice<'a>,
        /// The first word of each entry, `[queries, capacity]`.
        heads: Read &'a Buffer,
        /// The others, `[queries, capacity, words - 1]`.
        rests: Read &'a Buffer,
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

/// The words of the entries that each query gives: of all of them, or of none if it has more than its list holds.
pub fn reference(lists: &[&[u32]], counts: &[u32], capacity: u32) -> Vec<Vec<u32>> {
    let of = |(list, &count): (&&[u32], &u32)| match count > capacity {
        true => vec![],
        false => list.to_vec(),
    };
    lists.iter().zip(counts).map(of).collect()
}
