//! Groups pairs of queries and the lists they probe by list.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::matrix::ElementKind;

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
    .source(&[wgsl!("lib/grid"), wgsl!("lists/group")])
    .buffers(&[
        ("probed", Access::Read),
        ("counts", Access::Write),
        ("ranks", Access::Write),
        ("starts", Access::Read),
        ("list_tiles", Access::Read),
        ("grouped", Access::Write),
        ("pairs", Access::Write),
    ])
    .overrides(&[("PLACE", &[0, 1])])
    .workgroup(256, 0);

/// Queries, the lists they probe, and where they go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    /// Lists, u64, `[queries, probes]`.
    pub(crate) probed: &'a Buffer,
    pub(crate) queries: u32,
    pub(crate) probes: u32,
    pub(crate) lists: u32,
    /// Queries of a block of scores.
    pub(crate) height: u32,
    pub(crate) counts: &'a Buffer,
    pub(crate) ranks: &'a Buffer,
    pub(crate) starts: &'a Buffer,
    pub(crate) list_tiles: &'a Buffer,
    pub(crate) grouped: &'a Buffer,
    pub(crate) pairs: &'a Buffer,
}

/// Records the counting of pairs or, with `place`, their placing.
pub(crate) fn encode(commands: &mut Commands<'_>, group: &Group<'_>, place: bool) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[place.into()])?;
    let pairs = group.queries * group.probes;
    let params = Params { pairs, probes: group.probes, lists: group.lists, height: group.height };
    let buffers = [
        group.probed.into(),
        group.counts.into(),
        group.ranks.into(),
        group.starts.into(),
        group.list_tiles.into(),
        group.grouped.into(),
        group.pairs.into(),
    ];
    commands.dispatch(
        &pipeline,
        &params,
        &buffers,
        Grid::Linear(u64::from(pairs).div_ceil(KERNEL.workgroup_size.into())),
    )
}

/// The queries of each list, in order, from the lists that each query probes.
pub fn reference(probed: &[Vec<u32>], lists: usize) -> Vec<Vec<u32>> {
    let mut grouped = vec![vec![]; lists];
    for (query, probes) in (0..).zip(probed) {
        probes.iter().for_each(|&list| grouped[list as usize].push(query));
    }
    grouped
}
