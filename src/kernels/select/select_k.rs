//! The k smallest of each row by (key, id), for any k: what a selection is, and the kernel that takes rows of any kind, and those
//! in which quicker ones found no threshold.

use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel, Snippet, params, wgsl};
use crate::kernels::keys::ABSENT;
use crate::kernels::keys::KEYS;
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
        /// [`ROWS_CSR`], [`ROWS_LISTS`], or 0 for rows of equal length.
        row_kind: u32,
        /// Elements wanted.
        k: u32,
        /// Distance between the results of two rows.
        selected_pitch: u32,
        /// Rows a workgroup, up to 32, when it takes only some.
        rows_each: u32,
    }
}

/// Results up to this many leave the kernel sorted; more are sorted by `sort_runs` and `merge_runs`.
pub const SORTED_MAX: u32 = 1024;

/// Sorts up to [`SORTED_MAX`] elements in workgroup memory.
pub(crate) const SORT: Snippet = wgsl!("lib/sort", SORTED_MAX);

/// Values of `row_kind`: rows are CSR segments, or lists with counts.
const ROWS_CSR: u32 = 1;
const ROWS_LISTS: u32 = 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>(
    "select_k",
    &[
        KEYS,
        wgsl!("lib/grid"),
        wgsl!("lib/radix"),
        wgsl!("lib/order"),
        wgsl!("lib/states"),
        wgsl!("lib/passing"),
        SORT,
        wgsl!("lib/held"),
        wgsl!("lib/exact"),
        wgsl!("select/select_k", ROWS_CSR, ROWS_LISTS),
    ],
)
.buffers(&[
    ("keys_or_floats", Access::Read),
    ("ids", Access::Read),
    ("offsets", Access::Read),
    ("selected_keys", Access::Write),
    ("selected_ids", Access::Write),
    ("selected_counts", Access::Write),
])
.overrides(&[("POSITIONS", &[0, 1]), ("FLOATS", &[0, 1]), ("ONLY", &[0, 1])])
.sums_lanes()
.workgroup(256, 2 * 256 * 4 + 16 + 1024 * 12 + 128 * 4 + 16);

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
    /// Row `r` has the first `counts[r]` elements from `r * pitch` on, and no more than `pitch`.
    Lists {
        /// `[rows]`, u32.
        counts: BufferSlice<'a>,
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
    /// Room for lists of what may be selected, as [`scratch_bytes`] asks for it. Without it long rows take longer.
    pub scratch: Option<Scratch<'a>>,
}

/// Room for a selection from long rows; contents are arbitrary.
#[derive(Debug, Clone, Copy)]
pub struct Scratch<'a> {
    /// Thresholds and counts.
    pub states: BufferSlice<'a>,
    /// Lists, or buckets for a large k.
    pub lists: BufferSlice<'a>,
    /// Samples, for a large k.
    pub samples: BufferSlice<'a>,
}

impl<'a> Select<'a> {
    /// Where results go before they are sorted: the places swap with every pass, so that the last one ends in `selected`.
    pub(crate) fn unsorted(&self) -> Selected<'a> {
        match self.spare {
            Some(spare) if merge_passes(self.k) % 2 == 1 => spare,
            _ => self.selected,
        }
    }
}

/// Passes that merge sorted runs of [`SORTED_MAX`] into one of `length`.
pub(crate) fn merge_passes(length: u32) -> u32 {
    length.div_ceil(SORTED_MAX).next_power_of_two().trailing_zeros()
}

/// Which rows a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    /// All.
    Every,
    /// Those that are marked.
    Failed,
}

/// Records the kernel. What leaves in any order is written where it is to be sorted.
pub(crate) fn cut(commands: &mut Commands<'_>, select: &Select<'_>, only: Only) -> Result<()> {
    let number = u32::from(only == Only::Failed);
    let constants = [select.ids.is_none().into(), select.floats.into(), number];
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
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
        Rows::Lists { counts, pitch } => {
            (params.row_kind, params.pitch) = (ROWS_LISTS, pitch);
            counts
        }
        Rows::Csr { offsets } => {
            params.row_kind = ROWS_CSR;
            offsets
        }
    };
    let place = select.unsorted();
    // Where few rows are left to do, most workgroups find nothing, and the fewer there are the sooner they are gone.
    params.rows_each = if number == 0 { 1 } else { (select.count / 512).clamp(1, 16) };
    let ids = select.ids.unwrap_or(select.keys);
    let buffers = [select.keys, ids, offsets, place.keys, place.ids, select.selected_counts];
    let workgroups = select.count.div_ceil(params.rows_each);
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(workgroups.into()))
}

/// The k smallest of a row by (key, id), without ABSENT ones.
pub fn reference(keys: &[u32], ids: &[u64], k: usize) -> Vec<(u32, u64)> {
    let present = |&(key, _): &(u32, u64)| key != ABSENT;
    let mut row: Vec<_> = keys.iter().copied().zip(ids.iter().copied()).filter(present).collect();
    row.sort_unstable();
    row.truncate(k);
    row
}
