//! The k smallest of each row by (key, id), for any k.

use super::{merge_runs, sort_runs};
use crate::error::{Error, Result};
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel, params};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `select_k`.
    pub struct Params {
        /// Rows.
        rows: u32,
        /// Elements a row, unless rows are CSR segments.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Whether rows are CSR segments.
        is_csr: u32,
        /// Elements wanted.
        k: u32,
        /// Distance between the results of two rows.
        selected_pitch: u32,
    }
}

/// Results up to this many leave the kernel sorted; more are sorted by `sort_runs` and `merge_runs`.
pub const SORTED_MAX: u32 = 1024;

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "select_k",
    source: &[
        include_str!("../../wgsl/lib/keys.wgsl"),
        include_str!("../../wgsl/lib/grid.wgsl"),
        include_str!("../../wgsl/lib/radix.wgsl"),
        include_str!("../../wgsl/lib/order.wgsl"),
        include_str!("../../wgsl/lib/sort.wgsl"),
        include_str!("../../wgsl/select_k.wgsl"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("keys", Access::Read),
        ("ids", Access::Read),
        ("offsets", Access::Read),
        ("selected_keys", Access::Write),
        ("selected_ids", Access::Write),
        ("selected_counts", Access::Write),
    ],
    overrides: &[("POSITIONS", &[0, 1]), ("FLOATS", &[0, 1])],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 2 * 256 * 4 + 16 + 1024 * 12 + 8,
};

/// Where the rows of a selection lie.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// `length` elements each, `pitch` apart.
    Equal {
        /// Elements a row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
    },
    /// Row `r` has the elements `offsets[r] .. offsets[r + 1]`.
    Csr {
        /// `[rows + 1]`, u32.
        offsets: BufferSlice<'a>,
    },
}

/// Keys and ids of the results: `[rows, selected_pitch]`, of each row the first k.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    /// u32.
    pub keys: BufferSlice<'a>,
    /// u64.
    pub ids: BufferSlice<'a>,
}

/// What to select.
#[derive(Debug, Clone, Copy)]
pub struct Select<'a> {
    /// Keys, or f32 when `floats`.
    pub keys: BufferSlice<'a>,
    /// Ids, u64; without them an element's id is its position in the row.
    pub ids: Option<BufferSlice<'a>>,
    /// Whether `keys` are still f32. NaN is not selected.
    pub floats: bool,
    /// Where the rows are.
    pub rows: Rows<'a>,
    /// How many rows.
    pub count: u32,
    /// Elements wanted of each row.
    pub k: u32,
    /// The results, sorted by (key, id). What a row lacks is ABSENT.
    pub selected: Selected<'a>,
    /// Distance between the results of two rows.
    pub selected_pitch: u32,
    /// How many results a row has, u32.
    pub selected_counts: BufferSlice<'a>,
    /// A second place of the size of `selected`, needed when k is above [`SORTED_MAX`].
    pub spare: Option<Selected<'a>>,
}

/// Records the kernel, and for large k the sorting of its results.
pub(crate) fn encode(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    if select.k == 0 {
        return Err(Error::argument("k", "at least 1", 0));
    }
    let constants = [select.ids.is_none().into(), select.floats.into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let passes = merge_passes(select.k);
    let spare = match select.spare {
        Some(spare) => spare,
        None if passes == 0 => select.selected,
        None => {
            return Err(Error::argument(
                "spare",
                format!("a second place for results when k is above {SORTED_MAX}"),
                "none",
            ));
        }
    };
    // The places swap with every pass, so that the last one ends in `selected`.
    let (mut from, mut to) =
        if passes % 2 == 1 { (spare, select.selected) } else { (select.selected, spare) };
    let mut params = Params {
        rows: select.count,
        k: select.k,
        selected_pitch: select.selected_pitch,
        ..Params::default()
    };
    let offsets = match select.rows {
        Rows::Equal { length, pitch } => {
            (params.length, params.pitch) = (length, pitch);
            select.keys
        }
        Rows::Csr { offsets } => {
            params.is_csr = 1;
            offsets
        }
    };
    let ids = select.ids.unwrap_or(select.keys);
    let buffers = [select.keys, ids, offsets, from.keys, from.ids, select.selected_counts];
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(select.count.into()))?;
    if select.k > SORTED_MAX {
        sort_runs::encode(commands, from, select.count, select.k, select.selected_pitch)?;
    }
    for pass in 0..passes {
        let run = SORTED_MAX << pass;
        merge_runs::encode(commands, from, to, select.count, select.k, select.selected_pitch, run)?;
        (from, to) = (to, from);
    }
    Ok(())
}

/// Passes that merge sorted runs of [`SORTED_MAX`] into one of k.
fn merge_passes(k: u32) -> u32 {
    k.div_ceil(SORTED_MAX).next_power_of_two().trailing_zeros()
}

/// The k smallest of a row by (key, id), without ABSENT ones.
pub fn reference(keys: &[u32], ids: &[u64], k: usize) -> Vec<(u32, u64)> {
    let present = |&(key, _): &(u32, u64)| key != super::ABSENT;
    let mut row: Vec<_> = keys.iter().copied().zip(ids.iter().copied()).filter(present).collect();
    row.sort_unstable();
    row.truncate(k);
    row
}
