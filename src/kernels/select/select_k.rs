//! The k smallest of each row by (key, id): what can be selected, and the kernel that takes rows of any kind and any k. It also
//! takes rows in which faster kernels found no threshold.

use crate::error::{Error, Result};
use crate::gpu::{
    BufferSlice, Commands, EXACT, GRID, Grid, Kernel, ORDER, PASSING, RADIX, STATES, Snippet, params, wgsl,
};
use crate::kernels::held::HELD;
use crate::kernels::keys::{ABSENT, KEYS};

params! {
    pub struct Params {
        rows: u32,
        /// Elements per row, unless rows are CSR segments.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// 0 for rows of equal length, `ROWS_CSR` or `ROWS_LISTS`.
        row_kind: u32,
        /// Elements wanted.
        k: u32,
        /// Distance between the results of two rows.
        selected_pitch: u32,
        /// Rows per workgroup, up to 32, if only failed rows are taken.
        rows_each: u32,
    }
}

/// Up to this many results leave the kernel sorted; `sort_runs` and `merge_runs` sort more.
pub const SORTED_MAX: u32 = 1024;

/// Up to this many elements are ranked by comparing all with all.
const RANKED: u32 = 128;

/// Sorts up to [`SORTED_MAX`] elements in workgroup memory.
pub(crate) const SORT: Snippet = wgsl!("lib/select/sort", SORTED_MAX);

/// Values of `row_kind`: rows are CSR segments, or lists with counts.
const ROWS_CSR: u32 = 1;
const ROWS_LISTS: u32 = 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("select_k")
    .library(&[KEYS, GRID, RADIX, ORDER, STATES, PASSING, SORT, HELD, EXACT])
    .source(wgsl!("select/select_k", ROWS_CSR, ROWS_LISTS, RANKED))
    .buffers(bindings!(
        keys_or_floats: Read, ids: Read, offsets: Read, selected_keys: Write, selected_ids: Write,
        selected_counts: Write,
    ))
    .overrides(&[("POSITIONS", &[0, 1]), ("FLOATS", &[0, 1]), ("ONLY", &[0, 1, 2])])
    .sums_lanes()
    .workgroup(256, 2 * 256 * 4 + 16 + SORTED_MAX * 12 + 128 * 4 + 20);

/// The rows of a selection, and where they lie.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// `length` elements each, `pitch` apart.
    Equal {
        /// Elements per row.
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

/// Keys and ids of the results: `[rows, selected_pitch]`, the first k of each row.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    /// u32.
    pub keys: BufferSlice<'a>,
    /// u64.
    pub ids: BufferSlice<'a>,
}

/// A selection.
#[derive(Debug, Clone, Copy)]
pub struct Select<'a> {
    /// Keys, or f32 when `floats`.
    pub keys: BufferSlice<'a>,
    /// Ids, u64. Without them an element's id is its position in the row.
    pub ids: Option<BufferSlice<'a>>,
    /// Whether `keys` are still f32. NaN is not selected.
    pub floats: bool,
    /// Where the rows are.
    pub rows: Rows<'a>,
    /// Number of rows.
    pub count: u32,
    /// Elements wanted of each row.
    pub k: u32,
    /// The results, sorted by (key, id). A row with fewer than k elements ends with ABSENT.
    pub selected: Selected<'a>,
    /// Distance between the results of two rows.
    pub selected_pitch: u32,
    /// The number of results of each row, u32.
    pub selected_counts: BufferSlice<'a>,
    /// A second place of the size of `selected`, needed if k is above 1,024.
    pub spare: Option<Selected<'a>>,
    /// Scratch memory of the size that `selection::scratch_bytes` gives. Without it long rows take longer.
    pub scratch: Option<Scratch<'a>>,
}

/// Scratch memory for a selection from long rows; its contents are arbitrary.
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
    /// Where results go before they are sorted. The places swap with every pass, so that the last pass ends in `selected`.
    pub(crate) fn unsorted(&self) -> Selected<'a> {
        match self.spare {
            Some(spare) if merge_passes(self.k) % 2 == 1 => spare,
            _ => self.selected,
        }
    }

    /// Checks that rows and results lie within their buffers, and that no row's results reach into those of the next.
    pub(crate) fn check(&self) -> Result<()> {
        let elements = |pitch: u32, length: u32| {
            self.keys.check_rows("keys", self.count, [pitch, length], 4)?;
            self.ids.map_or(Ok(()), |ids| ids.check_rows("ids", self.count, [pitch, length], 8))
        };
        match self.rows {
            Rows::Equal { length, pitch } => elements(pitch, length)?,
            Rows::Lists { counts, pitch } => {
                counts.check_rows("counts", self.count, [1; 2], 4)?;
                elements(pitch, pitch)?;
            }
            Rows::Csr { offsets } => {
                offsets.check_rows("offsets", self.count.saturating_add(1), [1; 2], 4)?;
            }
        }
        if self.k > self.selected_pitch {
            let needed = format!("at most {}, the selected_pitch", self.selected_pitch);
            return Err(Error::argument("k", needed, self.k));
        }
        for place in [Some(self.selected), self.spare].into_iter().flatten() {
            let extent = [self.selected_pitch, self.k];
            place.keys.check_rows("selected keys", self.count, extent, 4)?;
            place.ids.check_rows("selected ids", self.count, extent, 8)?;
        }
        self.selected_counts.check_rows("selected_counts", self.count, [1; 2], 4)
    }
}

/// Passes that merge sorted runs of [`SORTED_MAX`] into one of `length`.
pub(crate) fn merge_passes(length: u32) -> u32 {
    length.div_ceil(SORTED_MAX).next_power_of_two().trailing_zeros()
}

/// The rows that a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    /// All.
    Every = 0,
    /// Those marked as failed.
    Failed = 1,
    /// All, for a k up to [`RANKED`].
    EveryOfFew = 2,
}

impl Only {
    /// The form for all rows. The one for a small k compiles in half of the time, and takes no longer for lists of some thousand candidates.
    pub(crate) fn every(rows: Rows<'_>, k: u32) -> Self {
        if matches!(rows, Rows::Lists { .. }) && k <= RANKED { Self::EveryOfFew } else { Self::Every }
    }
}

/// Records the kernel. Results that leave unsorted are written where they will be sorted.
pub(crate) fn cut(commands: &mut Commands<'_>, select: &Select<'_>, only: Only) -> Result<()> {
    let constants = [select.ids.is_none().into(), select.floats.into(), only as u32];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
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
    // If few rows are left, most workgroups find nothing to do, so each takes several rows.
    params.rows_each = if only == Only::Failed { (select.count / 512).clamp(1, 16) } else { 1 };
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
