//! Appends the slots of the lists that queries probe.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, GRID, Grid, Kernel, buffers, params, wgsl};
use crate::kernels::pages::{NO_PAGE, PAGE};

params! {
    pub struct Params {
        queries: u32,
        /// Lists that a query probes.
        probes: u32,
        lists: u32,
        /// Candidates that a query can have.
        capacity: u32,
        /// 1: there are no candidates yet, whatever their counts say.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("probe_slots")
    .library(&[GRID])
    .source(wgsl!("lists/probe_slots", PAGE, NO_PAGE))
    .buffers(BUFFERS)
    .workgroup(256, 4);

buffers! {
    /// Queries, the lists they probe, and where the slots of one segment go.
    pub(crate) struct Buffers<'a> {
        /// Lists, u64, `[queries, probes]`.
        probed: Read &'a Buffer,
        list_tiles: Read BufferSlice<'a>,
        tiles: Read BufferSlice<'a>,
        /// One bit per slot.
        allowed: Read &'a Buffer,
        counts: Write BufferSlice<'a>,
        candidates: Write &'a Buffer,
    }
}

pub(crate) fn encode(commands: &mut Commands<'_>, params: &Params, buffers: &Buffers<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.queries.into()))
}

/// The slots of the lists that one query probes, list by list.
pub fn reference(probed: &[u32], slots: &[Vec<u32>]) -> Vec<u32> {
    probed.iter().flat_map(|&list| slots[list as usize].iter().copied()).collect()
}
