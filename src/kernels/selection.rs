//! Which kernels select from rows of a kind, and the order in which they are recorded.

use super::select_k::{Lengths, Only, Rows, SORTED_MAX, Select, Selected, cut};
use super::select_sample::{self, Sample};
use super::{merge_runs, select_filter, select_row, select_short, sort_places, sort_runs};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands};

/// How rows are selected from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// `select_k` alone.
    Cut,
    /// `select_short`.
    Short,
    /// `select_row`, one pass over each row.
    Long(Sample),
    /// `select_sample` and `select_filter` to lists with room for so many entries, and `select_row` from those, or the whole lists
    /// sorted.
    Lists { sample: Sample, capacity: u32, is_sorted: bool },
}

/// Rows longer than this are cut into pieces, when there are few of them.
const LONG: u32 = 1 << 16;

/// So many rows occupy a large card with a workgroup each.
const MANY_ROWS: u32 = 512;

impl Route {
    /// The quickest one for rows whose ids are positions.
    fn of(rows: u32, length: u32, k: u32, lists: bool) -> Self {
        if length <= select_short::LONGEST {
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
        let room = if k <= SORTED_MAX { select_row::HELD.max(length >> 12) } else { 0 };
        let sample = Sample::of(length, k, room.into());
        let capacity = sample.passing.next_multiple_of(256) as u32;
        let is_cut = k <= SORTED_MAX
            && (capacity <= select_row::HELD
                || Sample::passing_of_list(capacity.into(), k) <= select_row::ROOM);
        Self::Lists { sample, capacity, is_sorted: !is_cut }
    }
}

/// Bytes of the buffers in [`Scratch`](super::select_k::Scratch), in their order, with which a selection from `rows` rows of `length` elements each, whose
/// ids are their positions, is quickest; zeros where it needs none.
pub fn scratch_bytes(rows: u32, length: u32, k: u32) -> [u64; 3] {
    let lists = |capacity: u32| lists_bytes(rows, capacity);
    let states = u64::from(rows) * 16;
    match Route::of(rows, length, k.min(length), true) {
        Route::Lists { capacity, is_sorted: false, .. } => [states, lists(capacity), 0],
        Route::Lists { capacity, .. } => [states, lists(capacity), lists(capacity)],
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
            let selected = [place.keys, place.ids, select.selected_counts];
            select_short::encode(commands, &params, select.floats, select.keys, selected)?;
            sort(commands, select)
        }
        (Route::Long(sample), _) => {
            let from = select_row::From::Rows(select.keys, select.floats, sample.held);
            select_row::encode(commands, &sampled(sample), from, results)?;
            cut(commands, select, Only::Failed)
        }
        (Route::Lists { sample, capacity, is_sorted }, Some(scratch)) => {
            let params = select_sample::Params { capacity, ..sampled(sample) };
            let lists = lists_of(scratch.lists, select.count, capacity);
            let form = (select.floats, sample.held);
            select_sample::encode(commands, &params, form, select.keys, scratch.states)?;
            let expected = (select.floats, sample.passing);
            select_filter::encode(commands, &params, expected, select.keys, scratch.states, lists)?;
            if !is_sorted {
                let from = select_row::From::Lists(lists.keys, lists.ids, scratch.states);
                select_row::encode(commands, &params, from, results)?;
                return cut(commands, select, Only::Failed);
            }
            cut(commands, select, Only::Unlisted { states: scratch.states, lists, capacity })?;
            let merged = lists_of(scratch.merged, select.count, capacity);
            sort_lists(commands, select, scratch.states, [lists, merged], capacity)
        }
        _ => encode_cut(commands, select),
    }
}

fn encode_cut(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    cut(commands, select, Only::Every)?;
    sort(commands, select)
}

/// Where results go before they are sorted: the places swap with every pass, so that the last one ends in `selected`.
pub(super) fn unsorted<'a>(select: &Select<'a>) -> Selected<'a> {
    match select.spare {
        Some(spare) if merge_passes(select.k) % 2 == 1 => spare,
        _ => select.selected,
    }
}

fn last_place(select: &Select<'_>) -> u32 {
    match select.rows {
        Rows::Equal { length, .. } => length.saturating_sub(1),
        Rows::Csr { .. } | Rows::Lists { .. } => u32::MAX,
    }
}

/// Records the sorting of a large k.
fn sort(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    if select.k <= SORTED_MAX {
        return Ok(());
    }
    let (length, counts) = (select.k, select.selected_counts);
    let last_place = last_place(select);
    let lengths = Lengths { length, k: length, last_place, states: None, counts };
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
    let last_place = last_place(select);
    let lengths = Lengths { length: capacity, k: select.k, last_place, states: Some(states), counts };
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
