//! The distances that searches report, for the candidates of each query.

use crate::elements::{ElementKind, MatrixView};
use crate::error::{Error, Result};
use crate::gpu::{ACROSS, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, IN_BLOCKS, ROW_PLACE, WORDS_IN_BLOCKS, lie_in_blocks};
use crate::kernels::keys::{KEYS, key_of};
use crate::kernels::lengths::{GRANULE, VECTORS, granules};
use crate::kernels::metrics::{METRIC, metric_constant};
use crate::kernels::sixteen::{AT_ONCE, INVOCATIONS, SIXTEEN};
use crate::metric::{Metric, REFINED_METRICS};

params! {
    pub struct Params {
        queries: u32,
        /// Vectors of four elements per row.
        vectors: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows of the segment.
        rows: u32,
        /// Length of `slots`; 0 if candidates are slots themselves, or if every slot of a range is allowed.
        entries: u32,
        /// Distance between the lists of two queries; 0 for CSR offsets. For a range: 1 if it is a range of places on a list.
        list_pitch: u32,
        /// First slot of a dense range, or first place.
        dense_first: u32,
        /// Slots of a dense range, or places; 0 if each query has its own list.
        dense_count: u32,
        /// Distance between the results of two queries of a dense range.
        found_pitch: u32,
        /// Where a query's results of a dense range start.
        found_first: u32,
        /// 1: candidates that are not in this segment are marked as absent.
        mark_absent: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("refine")
    .library(&[KEYS, ACROSS, SIXTEEN, METRIC, WORDS_IN_BLOCKS, ROW_PLACE])
    .source(wgsl!("distance/refine"))
    .buffers(bindings!(
        queries: Read, rows: Read, ids: Read, slots: Read, candidates: Read, offsets: Read, keys: Write,
        found_ids: Write,
    ))
    .overrides(&[("METRIC", REFINED_METRICS), ("INTEGRAL", &[0, 1]), IN_BLOCKS])
    .loads_rows_and_bits()
    .only(|elements, value| {
        let has_metric = |metric: &Metric| value("METRIC") == metric_constant(*metric);
        let fits = elements != ElementKind::Bits || Metric::OF_BITS.iter().any(has_metric);
        // f32 may be integers, and so are their queries.
        let may_be_whole = elements.is_wide() || elements.is_integer();
        fits && (may_be_whole || value("INTEGRAL") == 0) && lie_in_blocks(elements, value)
    })
    .lengths(&[VECTORS])
    .workgroup(INVOCATIONS, INVOCATIONS * 16);

/// The most dimensions whose sums of integers are exact: an invocation adds a sixteenth of the products, each at most 383^2, the square of
/// the largest difference of an i8 and a u8, and i32 holds that.
pub const INTEGRAL_DIM: u32 = 1 << 17;

const _: () = assert!((INTEGRAL_DIM as u64 / 16) * 383 * 383 < 1 << 31);

/// The candidates of the queries.
#[derive(Debug, Clone, Copy)]
pub enum Candidates<'a> {
    /// Query `q` has the candidates `offsets[q] .. offsets[q + 1]`; `total` bounds the last offset.
    Csr {
        /// Slots, or indices into `slots`, `u32`.
        candidates: BufferSlice<'a>,
        /// `[queries + 1]`, `u32`.
        offsets: BufferSlice<'a>,
        /// If candidates are indices: the slots they refer to, and their number.
        slots: Option<(BufferSlice<'a>, u32)>,
        /// At least the number of candidates; sets how many workgroups run.
        total: u32,
    },
    /// Query `q` has the first `counts[q]` candidates from `q * pitch` on, and its results lie in the same places.
    Lists {
        /// Slots, `u32`, or indices into `slots`.
        candidates: BufferSlice<'a>,
        /// `[queries]`, `u32`; at most `pitch` are taken.
        counts: BufferSlice<'a>,
        /// If candidates are indices: the slots they refer to, and their number.
        slots: Option<(BufferSlice<'a>, u32)>,
        /// Distance between the lists of two queries.
        pitch: u32,
    },
    /// All slots of a range, for every query. Results of query `q` start at `q * found_pitch + found_first`.
    Dense {
        /// First slot.
        first: u32,
        /// Number of them.
        count: u32,
        /// Distance between the results of two queries.
        found_pitch: u32,
        /// Where a query's results start.
        found_first: u32,
        /// One bit per slot, in `u32` words: slots whose bit is 0 are absent.
        allowed: Option<BufferSlice<'a>>,
    },
    /// Neighbouring slots on a list, for every query. Results lie as those of a range.
    Shared {
        /// Slots, `u32`.
        slots: BufferSlice<'a>,
        /// Place of the first on the list.
        first: u32,
        /// Number of them.
        count: u32,
        /// Distance between the results of two queries.
        found_pitch: u32,
        /// Where a query's results start.
        found_first: u32,
    },
}

impl Candidates<'_> {
    /// All of `count` slots, for every query.
    pub(crate) fn all(count: u32, found_pitch: u32) -> Self {
        Self::Dense { first: 0, count, found_pitch, found_first: 0, allowed: None }
    }
}

/// Distances to compute on one segment. Queries are f32; rows and queries have `vectors` vectors of four elements each.
#[derive(Debug, Clone, Copy)]
pub struct Refine<'a> {
    /// `L2` is computed as its square.
    pub metric: Metric,
    /// `[queries, 4 * vectors]`.
    pub queries: BufferSlice<'a>,
    /// Number of queries.
    pub count: u32,
    /// `[rows, 4 * vectors]`.
    pub rows: BufferSlice<'a>,
    /// Element type of the rows.
    pub elements: ElementKind,
    /// Whether rows lie as their codes do; those of a matrix do not.
    pub in_blocks: bool,
    /// Whether elements of queries and rows are integers from -128 to 255. Sums are exact then, and rounded once.
    pub integral: bool,
    /// Vectors of four elements per row.
    pub vectors: u32,
    /// Rows of the segment.
    pub row_count: u32,
    /// Slot of the segment's first row.
    pub first_slot: u32,
    /// Ids of the segment's rows, u64.
    pub ids: BufferSlice<'a>,
    /// The rows of each query.
    pub candidates: Candidates<'a>,
    /// Distances as keys, `u32`.
    pub keys: BufferSlice<'a>,
    /// The ids of the candidates' rows, u64.
    pub found_ids: BufferSlice<'a>,
    /// Marks candidates that are not in this segment as absent; set for the first of several segments.
    pub mark_absent: bool,
}

impl Refine<'_> {
    /// Checks that everything lies within its buffer. Otherwise a loop over vectors or candidates could wrap around and never end.
    pub(crate) fn check(&self) -> Result<()> {
        let &Self { vectors, count, row_count, keys, found_ids, .. } = self;
        self.queries.check_rows("queries", count, [vectors; 2], 16)?;
        let (rows, length, bytes) = match self.in_blocks {
            true => {
                (row_count.div_ceil(BLOCK_ROWS), BLOCK_ROWS * granules(4 * vectors as usize), GRANULE as u64)
            }
            false => (row_count, vectors, 4 * self.elements.size() as u64),
        };
        self.rows.check_rows("rows", rows, [length; 2], bytes)?;
        self.ids.check_rows("ids", row_count, [1; 2], 8)?;
        let results = |pitch: u32, length: u32| {
            keys.check_rows("keys", count, [pitch, length], 4)?;
            found_ids.check_rows("found_ids", count, [pitch, length], 8)
        };
        match self.candidates {
            Candidates::Csr { offsets, slots, .. } => {
                offsets.check_rows("offsets", count.saturating_add(1), [1; 2], 4)?;
                slots.map_or(Ok(()), |(slots, entries)| slots.check_rows("slots", entries, [1; 2], 4))
            }
            Candidates::Lists { candidates, counts, slots, pitch } => {
                candidates.check_rows("candidates", count, [pitch; 2], 4)?;
                slots.map_or(Ok(()), |(slots, entries)| slots.check_rows("slots", entries, [1; 2], 4))?;
                counts.check_rows("counts", count, [1; 2], 4)?;
                results(pitch, pitch)
            }
            Candidates::Dense { count, found_pitch, found_first, .. }
            | Candidates::Shared { count, found_pitch, found_first, .. } => {
                results(found_pitch, found_first.saturating_add(count))
            }
        }
    }
}

pub(crate) fn encode(commands: &mut Commands<'_>, refine: &Refine<'_>) -> Result<()> {
    let gpu = commands.gpu();
    let integral = refine.integral && refine.vectors * 4 <= INTEGRAL_DIM;
    let constants = [metric_constant(refine.metric), integral.into(), refine.in_blocks.into()];
    let pipeline = gpu.pipeline_for(&KERNEL, refine.elements, &constants)?;
    let mut params = Params {
        queries: refine.count,
        vectors: refine.vectors,
        first_slot: refine.first_slot,
        rows: refine.row_count,
        mark_absent: refine.mark_absent.into(),
        ..Params::default()
    };
    let limit = gpu.adapter.capabilities.max_workgroups;
    // Candidates that a workgroup takes at a time.
    let at_once = if gpu.is_software() { INVOCATIONS } else { AT_ONCE };
    let unused = refine.queries;
    let each = |columns| Grid::Tiles(gpu.workgroups_each(refine.count, columns), refine.count);
    let (slots, candidates, offsets, grid) = match refine.candidates {
        Candidates::Csr { candidates, offsets, slots, total } => {
            params.entries = slots.map_or(0, |(_, entries)| entries);
            if slots.is_some_and(|(_, entries)| entries == 0) {
                return Err(Error::argument("slots", "at least one", 0));
            }
            // The kernel strides over the candidates; this many workgroups fill any adapter.
            let columns = gpu.workgroups_each(1, total.div_ceil(at_once).min(4096));
            let grid = Grid::Tiles(columns, 1);
            (slots.map_or(unused, |(slots, _)| slots), candidates, offsets, grid)
        }
        Candidates::Lists { candidates, counts, slots, pitch } => {
            params.list_pitch = pitch;
            params.entries = slots.map_or(0, |(_, entries)| entries);
            // Lists are far from full, so a few workgroups stride over each. More would find nothing and still cost time.
            let columns = (4096 / refine.count.max(1)).clamp(4, 128).min(limit).min(pitch.div_ceil(at_once));
            (slots.map_or(unused, |(slots, _)| slots), candidates, counts, each(columns))
        }
        Candidates::Dense { first, count, found_pitch, found_first, allowed } => {
            params.dense_first = first;
            params.dense_count = count;
            params.found_pitch = found_pitch;
            params.found_first = found_first;
            params.entries = allowed.map_or(0, |words| (words.bytes / 4) as u32);
            (allowed.unwrap_or(unused), unused, unused, each(count.div_ceil(at_once).min(limit)))
        }
        Candidates::Shared { slots, first, count, found_pitch, found_first } => {
            params.dense_first = first;
            params.dense_count = count;
            params.found_pitch = found_pitch;
            params.found_first = found_first;
            params.list_pitch = 1;
            (unused, slots, unused, each(count.div_ceil(at_once).min(limit)))
        }
    };
    let buffers =
        [refine.queries, refine.rows, refine.ids, slots, candidates, offsets, refine.keys, refine.found_ids];
    commands.dispatch(&pipeline, &params, &buffers, grid)
}

/// The distances of CSR candidates in f64, and their slots, for comparison with the kernel's keys and ids.
pub fn reference(
    metric: Metric,
    queries: MatrixView<'_, f32>,
    rows: MatrixView<'_, f32>,
    slots: &[u32],
    candidates: &[u32],
    offsets: &[u32],
) -> Vec<(f64, u32)> {
    let metric = metric.ordering();
    let mut found = vec![];
    for (query, ends) in offsets.windows(2).enumerate() {
        for &candidate in &candidates[ends[0] as usize..ends[1] as usize] {
            let slot = slots[candidate as usize];
            found.push((metric.exact(queries.row(query), rows.row(slot as usize)), slot));
        }
    }
    found
}

/// The key of a distance that f32 represents exactly, as with integer-valued data.
pub fn exact_key(distance: f64) -> u32 {
    key_of(distance as f32)
}
