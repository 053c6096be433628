//! Chooses the kernels of a selection by the shape of its rows, and records them in order.

use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands};
use crate::kernels::select::sample_sort::{self, BUCKET_ROOM, SampleSort};
use crate::kernels::select::select_k::{
    Only, Rows, SORTED_MAX, Scratch, Select, Selected, cut, merge_passes,
};
use crate::kernels::select::select_sample::{self, Sample};
use crate::kernels::select::{
    merge_runs, sample_runs, scatter_buckets, select_filter, select_row, select_short, sort_buckets,
    sort_places, sort_runs,
};

/// The kernels of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// `select_k` alone.
    Cut,
    /// `select_short`.
    Short,
    /// `select_row`, one pass over each row.
    Long(Sample),
    /// `select_sample` and `select_filter` make lists with room for this many entries, and `select_row` selects from them.
    Lists(Sample, u32),
    /// A sample sort: `sample_runs`, `scatter_buckets`, `sort_buckets`.
    Buckets(SampleSort),
}

/// Rows longer than this are cut into pieces if there are few of them.
const LONG: u32 = 1 << 16;

/// This many rows, one workgroup each, fill a large GPU.
const MANY_ROWS: u32 = 512;

impl Route {
    /// The fastest route for rows whose ids are positions.
    fn of(rows: u32, length: u32, k: u32, lists: bool) -> Self {
        if length <= select_short::LONGEST {
            return Self::Short;
        }
        let one_pass = Sample::of(length, k, select_row::POOL_ROOM.into());
        let fits = k <= SORTED_MAX && one_pass.passing <= select_row::POOL_ROOM.into();
        if fits && (!lists || length <= LONG || rows >= MANY_ROWS) {
            return Self::Long(one_pass);
        }
        if !lists {
            return Self::Cut;
        }
        // Lists that `select_row` holds, or that are a negligible part of the row.
        let sample = Sample::of(length, k, select_row::HELD_MAX.max(length >> 12).into());
        let capacity = sample.passing.next_multiple_of(256) as u32;
        let is_cut = capacity <= select_row::HELD_MAX
            || Sample::passing_of_list(capacity.into(), k) <= select_row::POOL_ROOM.into();
        if k <= SORTED_MAX && is_cut {
            return Self::Lists(sample, capacity);
        }
        let plan = SampleSort::of(length, k);
        // Each bucket is a column of workgroups.
        if plan.buckets < 1 << 16 { Self::Buckets(plan) } else { Self::Cut }
    }
}

/// Bytes of the buffers in [`Scratch`], in their order, that make a selection from `rows` rows of `length` elements fastest, where
/// ids are positions; 0 for buffers it does not need.
pub fn scratch_bytes(rows: u32, length: u32, k: u32) -> [u64; 3] {
    let states = u64::from(rows) * 16;
    match Route::of(rows, length, k.min(length), true) {
        Route::Lists(_, capacity) => [states, lists_bytes(rows, capacity), 0],
        Route::Buckets(plan) => {
            let counts = u64::from(rows) * u64::from(plan.parts + plan.buckets) * 4;
            let entries = u64::from(rows) * u64::from(plan.buckets) * u64::from(BUCKET_ROOM) * 8;
            let sample = lists_bytes(rows, plan.entries());
            [states + counts, entries.max(sample), sample]
        }
        _ => [0; 3],
    }
}

/// Bytes of lists: keys, then ids from a multiple of 256 bytes on.
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
    // Kernels see at least a vector of four elements.
    if select.ids.is_some() || length == 0 || select.keys.bytes < 16 {
        return encode_cut(commands, select);
    }
    let lists = select.scratch.filter(|scratch| {
        let needed = scratch_bytes(select.count, length, select.k);
        let there = [scratch.states.bytes, scratch.lists.bytes, scratch.samples.bytes];
        let fits = |(&needed, there): (&u64, u64)| needed <= there && needed <= limits.max_binding_bytes;
        needed.iter().zip(there).all(fits) && select.count <= limits.max_workgroups
    });
    // No row gives more elements than it has.
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
            let place = select.unsorted();
            let selected = [place.keys, place.ids, select.selected_counts];
            select_short::encode(commands, &params, select.floats, select.keys, selected)?;
            sort(commands, select, None)
        }
        (Route::Long(sample), _) => {
            let from = select_row::Source::Rows(select.keys, select.floats, sample.held);
            select_row::encode(commands, &sampled(sample), from, results)?;
            cut(commands, select, Only::Failed)
        }
        (Route::Lists(sample, capacity), Some(scratch)) => {
            let params = select_sample::Params { capacity, ..sampled(sample) };
            let lists = lists_of(scratch.lists, select.count, capacity);
            let form = (select.floats, sample.held);
            select_sample::encode(commands, &params, form, select.keys, scratch.states)?;
            let expected = (select.floats, sample.passing);
            select_filter::encode(commands, &params, expected, select.keys, scratch.states, lists)?;
            let from = select_row::Source::Lists(lists.keys, lists.ids, scratch.states);
            select_row::encode(commands, &params, from, results)?;
            cut(commands, select, Only::Failed)
        }
        (Route::Buckets(plan), Some(scratch)) => {
            if let Some(sample) = plan.filter {
                let form = (select.floats, sample.held);
                select_sample::encode(commands, &sampled(sample), form, select.keys, scratch.states)?;
            }
            let params = plan.params(sample_sort::Params {
                rows: select.count,
                length,
                pitch,
                k: select.k,
                selected_pitch: select.selected_pitch,
                ..Default::default()
            });
            sort_by_splitters(commands, select, &params, scratch)?;
            cut(commands, select, Only::Failed)?;
            sort(commands, select, Some(scratch.states))
        }
        _ => encode_cut(commands, select),
    }
}

fn encode_cut(commands: &mut Commands<'_>, select: &Select<'_>) -> Result<()> {
    cut(commands, select, Only::every(select.rows, select.k))?;
    sort(commands, select, None)
}

/// Records the sample sort of the smallest elements of each row.
fn sort_by_splitters(
    commands: &mut Commands<'_>,
    select: &Select<'_>,
    params: &sample_sort::Params,
    scratch: Scratch<'_>,
) -> Result<()> {
    let (values, floats, states, rows) = (select.keys, select.floats, scratch.states, select.count);
    let entries = params.parts * SORTED_MAX;
    // The sample's second place is the later place of the buckets; the sorted sample ends in the first.
    let places = [scratch.samples, scratch.lists].map(|place| lists_of(place, rows, entries));
    let passes = merge_passes(entries);
    let place_of = |pass: u32| places[(passes - pass) as usize % 2];
    sample_runs::encode(commands, params, floats, values, states, place_of(0))?;
    for pass in 0..passes {
        let merged = [place_of(pass), place_of(pass + 1)];
        merge_runs::encode(commands, merged, rows, (entries, entries), SORTED_MAX << pass, None)?;
    }
    let sample = places[0];
    scatter_buckets::encode(commands, params, floats, values, states, sample, scratch.lists)?;
    let selected = [select.selected.keys, select.selected.ids, select.selected_counts];
    sort_buckets::encode(commands, params, states, scratch.lists, selected)
}

fn last_place(select: &Select<'_>) -> u32 {
    match select.rows {
        Rows::Equal { length, .. } => length.saturating_sub(1),
        Rows::Csr { .. } | Rows::Lists { .. } => u32::MAX,
    }
}

/// Records the sorting of more than [`SORTED_MAX`] results; with states, only of rows that failed.
fn sort(commands: &mut Commands<'_>, select: &Select<'_>, failed: Option<BufferSlice<'_>>) -> Result<()> {
    if select.k <= SORTED_MAX {
        return Ok(());
    }
    let (rows, length, pitch) = (select.count, select.k, select.selected_pitch);
    let mut from = select.unsorted();
    if select.ids.is_some() {
        sort_runs::encode(commands, from, rows, length, pitch)?;
    } else {
        let params = sort_places::Params { length, pitch, run: SORTED_MAX, last_place: last_place(select) };
        sort_places::encode(commands, from, rows, &params, failed, select.selected_counts)?;
    }
    let passes = merge_passes(select.k);
    for pass in 0..passes {
        // With an even number of passes left, results go to the spare place.
        let to = match select.spare {
            Some(spare) if (passes - pass).is_multiple_of(2) => spare,
            _ => select.selected,
        };
        merge_runs::encode(commands, [from, to], rows, (length, pitch), SORTED_MAX << pass, failed)?;
        from = to;
    }
    Ok(())
}
