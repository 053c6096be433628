//! The k smallest of each row by (key, id), for any k: by the quickest kernels for rows of that kind, and by `select_k` itself for
//! rows of any kind, and for those in which the quicker ones found no threshold.

use super::select_sample::{self, Sample};
use super::{merge_runs, select_filter, select_row, sort_places, sort_runs};
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
        /// Entries that a list has room for.
        capacity: u32,
        /// Rows a workgroup, up to 32, when it takes only some.
        rows_each: u32,
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
        include_str!("../../wgsl/lib/states.wgsl"),
        include_str!("../../wgsl/lib/passing.wgsl"),
        include_str!("../../wgsl/lib/sort.wgsl"),
        include_str!("../../wgsl/lib/held.wgsl"),
        include_str!("../../wgsl/lib/exact.wgsl"),
        include_str!("../../wgsl/select_k.wgsl"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("keys_or_floats", Access::Read),
        ("ids", Access::Read),
        ("offsets", Access::Read),
        ("selected_keys", Access::Write),
        ("selected_ids", Access::Write),
        ("selected_counts", Access::Write),
    ],
    overrides: &[("POSITIONS", &[0, 1]), ("FLOATS", &[0, 1]), ("ONLY", &[0, 1, 2])],
    loads_rows: false,
    sums_lanes: true,
    adds_floats: false,
    workgroup_size: 256,
    workgroup_bytes: 2 * 256 * 4 + 16 + 1024 * 12 + 128 * 4 + 16,
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
    /// Room for lists of what may be selected, as [`scratch_bytes`] asks for it. Without it long rows take longer.
    pub scratch: Option<Scratch<'a>>,
}

/// Room for a selection from long rows; contents are arbitrary.
#[derive(Debug, Clone, Copy)]
pub struct Scratch<'a> {
    /// Thresholds.
    pub states: BufferSlice<'a>,
    /// Lists.
    pub lists: BufferSlice<'a>,
    /// A second place for lists, for a large k.
    pub merged: BufferSlice<'a>,
}

/// How rows are selected from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// `select_k` alone.
    Cut,
    /// `select_row`, rows in registers.
    Short,
    /// `select_row`, one pass over each row.
    Long(Sample),
    /// `select_sample` and `select_filter` to lists of so many entries, and `select_row` from those.
    Lists(Sample, u32),
    /// The same, but whole lists are sorted.
    SortedLists(Sample, u32),
}

/// Rows longer than this are cut into pieces, when there are few of them.
const LONG: u32 = 1 << 16;

/// So many rows occupy a large card with a workgroup each.
const MANY_ROWS: u32 = 512;

impl Route {
    /// The quickest one for rows whose ids are positions.
    fn of(rows: u32, length: u32, k: u32, lists: bool) -> Self {
        if length <= select_row::SHORT {
            return Self::Short;
        }
        let one_pass = Sample::of(length, k, select_row::ROOM);
        let fits = k <= SORTED_MAX && one_pass.passing <= select_row::ROOM;
        if fits && (!lists || length <= LONG || rows >= MANY_ROWS) {
            return Self::Long(one_pass);
        }
        if !lists {
            return Self::Cut;
        }
        // Lists that `select_row` holds, or of a part of the row that does not count; as short as can be when they are sorted whole.
        let room = if k <= SORTED_MAX { select_row::SHORT.max(length >> 12) } else { 0 };
        let sample = Sample::of(length, k, room.into());
        let capacity = sample.passing.next_multiple_of(256) as u32;
        let is_cut = k <= SORTED_MAX
            && (capacity <= select_row::SHORT
                || Sample::passing_of_list(capacity.into(), k) <= select_row::ROOM);
        if is_cut { Self::Lists(sample, capacity) } else { Self::SortedLists(sample, capacity) }
    }
}

/// Bytes of the buffers in [`Scratch`], in their order, with which a selection from `rows` rows of `length` elements each, whose
/// ids are their positions, is quickest; zeros where it needs none.
pub fn scratch_bytes(rows: u32, length: u32, k: u32) -> [u64; 3] {
    let lists = |capacity: u32| lists_bytes(rows, capacity);
    let states = u64::from(rows) * 16;
    match Route::of(rows, length, k.min(length), true) {
        Route::Lists(_, capacity) => [states, lists(capacity), 0],
        Route::SortedLists(_, capacity) => [states, lists(capacity), lists(capacity)],
        _ => [0; 3],
    }
}

/// Keys, from a multiple of 256 bytes on ids.
fn lists_bytes(rows: u32, capacity: u32) -> u64 {
    let entries = u64::from(rows) * u64::from(capacity);
    (entries * 4).next_multiple_of(256) + entries * 8
}

fn lists_of(slice: BufferSlice<'_>, rows: u32, capacity: u32) -> Selected<'_> {
    let entries = u64::from(rows) * u64::from(capacity);
    let ids = (entries * 4).next_multiple_of(256);
    let part = |start, bytes| BufferSlice { buffer: slice.buffer, offset: slice.offset + start, bytes };
    Selected { keys: part(0, entries * 4), ids: part(ids, entries * 8) }
}

/// Lengths of rows to be sorted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths<'a> {
    /// Elements of every row; of lists, the room.
    pub(super) length: u32,
    /// Elements wanted of lists.
    pub(super) k: u32,
    /// Of lists, their thresholds and lengths.
    pub(super) states: Option<BufferSlice<'a>>,
    /// How many results a row has.
    pub(super) counts: BufferSlice<'a>,
}

/// Records the kernels.
pub(crate) fn encode(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    if select.k == 0 {
        return Err(Error::argument("k", "at least 1", 0));
    }
    if merge_passes(select.k) > 0 && select.spare.is_none() {
        return Err(Error::argument(
            "spare",
            format!("a second place for results when k is above {SORTED_MAX}"),
            "none",
        ));
    }
    let Rows::Equal { length, pitch } = select.rows else { return encode_cut(commands, select) };
    let limits = &commands.gpu().adapter.capabilities;
    // A vector of four elements is the least that a kernel can see.
    if select.ids.is_some() || length == 0 || select.keys.bytes < 16 {
        return encode_cut(commands, select);
    }
    let lists = select.scratch.filter(|scratch| {
        let needed = scratch_bytes(select.count, length, select.k);
        let there = [scratch.states.bytes, scratch.lists.bytes, scratch.merged.bytes];
        let fits = |(&needed, there): (&u64, u64)| needed <= there && needed <= limits.max_binding_bytes;
        needed.iter().zip(there).all(fits) && select.count <= limits.max_workgroups
    });
    // More than a row has is wanted of no row.
    let k = select.k.min(length);
    let params = select_sample::Params {
        rows: select.count,
        length,
        pitch,
        k: select.k,
        selected_pitch: select.selected_pitch,
        ..Default::default()
    };
    let sampled = |sample: Sample| select_sample::Params {
        turns: sample.turns,
        fewest: sample.fewest,
        most: sample.most,
        ..params
    };
    let results = [select.selected.keys, select.selected.ids, select.selected_counts];
    match (Route::of(select.count, length, k, lists.is_some()), lists) {
        (Route::Short, _) => {
            let place = unsorted(select);
            let from = select_row::From::Short(select.keys);
            let selected = [place.keys, place.ids, select.selected_counts];
            select_row::encode(commands, &params, select.floats, from, selected)?;
            sort(commands, select)
        }
        (Route::Long(sample), _) => {
            let from = select_row::From::Long(select.keys, sample.held);
            select_row::encode(commands, &sampled(sample), select.floats, from, results)?;
            cut(commands, select, Only::Failed)
        }
        (Route::Lists(sample, capacity) | Route::SortedLists(sample, capacity), Some(scratch)) => {
            let params = select_sample::Params { capacity, ..sampled(sample) };
            let lists = lists_of(scratch.lists, select.count, capacity);
            let form = (select.floats, sample.held);
            select_sample::encode(commands, &params, form, select.keys, scratch.states)?;
            let expected = (select.floats, sample.passing);
            select_filter::encode(commands, &params, expected, select.keys, scratch.states, lists)?;
            if !matches!(Route::of(select.count, length, k, true), Route::SortedLists(..)) {
                let from = select_row::From::Lists(lists.keys, lists.ids, scratch.states);
                select_row::encode(commands, &params, false, from, results)?;
                return cut(commands, select, Only::Failed);
            }
            cut(commands, select, Only::Unlisted { states: scratch.states, lists, capacity })?;
            let merged = lists_of(scratch.merged, select.count, capacity);
            sort_lists(commands, select, scratch.states, [lists, merged], capacity)
        }
        _ => encode_cut(commands, select),
    }
}

/// Which rows `select_k` takes.
#[derive(Debug, Clone, Copy)]
enum Only<'a> {
    /// All.
    Every,
    /// Those that are marked.
    Failed,
    /// Those whose list does not hold what is wanted; their results become their list.
    Unlisted { states: BufferSlice<'a>, lists: Selected<'a>, capacity: u32 },
}

fn encode_cut(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    cut(commands, select, Only::Every)?;
    sort(commands, select)
}

/// Records `select_k`.
fn cut(commands: &mut Commands<'_>, select: &Select<'_>, only: Only<'_>) -> Result<()> {
    let number = match only {
        Only::Every => 0,
        Only::Failed => 1,
        Only::Unlisted { .. } => 2,
    };
    let constants = [select.ids.is_none().into(), select.floats.into(), number];
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let mut params = Params {
        rows: select.count,
        k: select.k,
        selected_pitch: select.selected_pitch,
        ..Params::default()
    };
    let mut offsets = match select.rows {
        Rows::Equal { length, pitch } => {
            (params.length, params.pitch) = (length, pitch);
            select.keys
        }
        Rows::Csr { offsets } => {
            params.is_csr = 1;
            offsets
        }
    };
    let mut place = if matches!(only, Only::Every) { unsorted(select) } else { select.selected };
    if let Only::Unlisted { states, lists, capacity } = only {
        (offsets, place) = (states, lists);
        (params.selected_pitch, params.capacity) = (capacity, capacity);
    }
    // Where few rows are left to do, most workgroups find nothing, and the fewer there are the sooner they are gone.
    params.rows_each = if number == 0 { 1 } else { (select.count / MANY_ROWS).clamp(1, 16) };
    let ids = select.ids.unwrap_or(select.keys);
    let buffers = [select.keys, ids, offsets, place.keys, place.ids, select.selected_counts];
    let workgroups = select.count.div_ceil(params.rows_each);
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(workgroups.into()))
}

/// Where results go before they are sorted: the places swap with every pass, so that the last one ends in `selected`.
fn unsorted<'a>(select: &Select<'a>) -> Selected<'a> {
    match select.spare {
        Some(spare) if merge_passes(select.k) % 2 == 1 => spare,
        _ => select.selected,
    }
}

/// Records the sorting of a large k.
fn sort(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    if select.k <= SORTED_MAX {
        return Ok(());
    }
    let (length, counts) = (select.k, select.selected_counts);
    let lengths = Lengths { length, k: length, states: None, counts };
    let pitch = select.selected_pitch;
    let mut from = unsorted(select);
    if select.ids.is_some() {
        sort_runs::encode(commands, from, select.count, length, pitch)?;
    } else {
        sort_places::encode(commands, from, select.count, &lengths, pitch)?;
    }
    let passes = merge_passes(select.k);
    for pass in 0..passes {
        // An even number of passes is left before the results are in their place.
        let to = match select.spare {
            Some(spare) if (passes - pass).is_multiple_of(2) => spare,
            _ => select.selected,
        };
        let merge = (SORTED_MAX << pass, select.k, false);
        merge_runs::encode(commands, (from, pitch), (to, pitch), select.count, &lengths, merge)?;
        from = to;
    }
    Ok(())
}

/// Records the sorting of whole lists, of which the first k are the results.
fn sort_lists<'a>(
    commands: &mut Commands<'_>,
    select: &Select<'a>,
    states: BufferSlice<'a>,
    [mut from, mut spare]: [Selected<'a>; 2],
    capacity: u32,
) -> Result<()> {
    let counts = select.selected_counts;
    let lengths = Lengths { length: capacity, k: select.k, states: Some(states), counts };
    sort_places::encode(commands, from, select.count, &lengths, capacity)?;
    // One merge at least, because it also puts the results where they belong.
    let passes = merge_passes(capacity).max(1);
    for pass in 0..passes {
        let last = pass + 1 == passes;
        let (to, pitch, length) = if last {
            (select.selected, select.selected_pitch, select.k)
        } else {
            (spare, capacity, capacity)
        };
        let merge = (SORTED_MAX << pass, length, last);
        merge_runs::encode(commands, (from, capacity), (to, pitch), select.count, &lengths, merge)?;
        (from, spare) = (to, from);
    }
    Ok(())
}

/// Passes that merge sorted runs of [`SORTED_MAX`] into one of `length`.
fn merge_passes(length: u32) -> u32 {
    length.div_ceil(SORTED_MAX).next_power_of_two().trailing_zeros()
}

/// The k smallest of a row by (key, id), without ABSENT ones.
pub fn reference(keys: &[u32], ids: &[u64], k: usize) -> Vec<(u32, u64)> {
    let present = |&(key, _): &(u32, u64)| key != super::ABSENT;
    let mut row: Vec<_> = keys.iter().copied().zip(ids.iter().copied()).filter(present).collect();
    row.sort_unstable();
    row.truncate(k);
    row
}
