//! Appends the slots of the lists that queries probe.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::pages::{NO_PAGE, PAGE};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `probe_slots`.
    pub struct Params {
        /// Queries.
        queries: u32,
        /// Lists that a query probes.
        probes: u32,
        /// Lists.
        lists: u32,
        /// Entries of a query's list of slots.
        capacity: u32,
        /// 1: lists of slots are empty, whatever their counts say.
        is_first: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("probe_slots")
    .source(&[wgsl!("lib/grid"), wgsl!("lists/probe_slots", PAGE, NO_PAGE)])
    .buffers(&[
        ("probed", Access::Read),
        ("list_tiles", Access::Read),
        ("tiles", Access::Read),
        ("allowed", Access::Read),
        ("counts", Access::Write),
        ("lists", Access::Write),
    ])
    .workgroup(256, 4);

/// Queries, the lists they probe, and where the slots of one segment go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeSlots<'a> {
    /// Lists, u64, `[queries, probes]`.
    pub(crate) probed: &'a Buffer,
    pub(crate) queries: u32,
    pub(crate) probes: u32,
    pub(crate) lists: u32,
    pub(crate) list_tiles: &'a Buffer,
    pub(crate) tiles: &'a Buffer,
    /// One bit per slot.
    pub(crate) allowed: &'a Buffer,
    pub(crate) counts: &'a Buffer,
    pub(crate) slots: &'a Buffer,
    pub(crate) capacity: u32,
    /// Whether this begins the lists of slots.
    pub(crate) is_first: bool,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, probe: &ProbeSlots<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[])?;
    let params = Params {
        queries: probe.queries,
        probes: probe.probes,
        lists: probe.lists,
        capacity: probe.capacity,
        is_first: probe.is_first.into(),
    };
    let buffers = [
        probe.probed.into(),
        probe.list_tiles.into(),
        probe.tiles.into(),
        probe.allowed.into(),
        probe.counts.into(),
        probe.slots.into(),
    ];
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(probe.queries.into()))
}

/// The slots of the lists that one query probes, list by list.
pub fn reference(probed: &[u32], slots: &[Vec<u32>]) -> Vec<u32> {
    probed.iter().flat_map(|&list| slots[list as usize].iter().copied()).collect()
}
