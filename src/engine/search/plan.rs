//! How a search will run: which kernel nominates, in what batches and chunks, under the budget.

use std::fmt;

use crate::engine::rows::allowed::Room;
use crate::engine::rows::narrowed::NarrowedRows;
use crate::engine::rows::segments::{GpuRows, Segment};
use crate::error::{Error, Result};
use crate::gpu::AdapterKind;
use crate::kernels::collect::{GROUP, Round};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::select_k::SORTED_MAX;
use crate::kernels::{BLOCK_ROWS, Part, distance_scan, narrow, screen_scan_i8};

/// A kernel whose scores say which rows may be among the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nominator {
    /// `distance_scan`: every row is read once for up to four queries.
    Scan,
    /// `distance_tile`: tiles of 128 queries by 128 rows.
    Tile,
    /// `screen_scan_i8`: every narrowed row is read once for up to eight queries.
    ScanI8,
    /// `screen_tile_i8`: tiles of narrowed queries and rows, by integer products.
    TileI8,
    /// `screen_tile_coop`: the same on cooperative matrices.
    TileCoop,
}

/// Queries that are scanned together at most; more go by tile.
///
/// A tile costs the same for 1 as for 128 queries, and a scan as much for every four: measured on an H200 at dim 768 they
/// meet between 16 and 32 queries (`docs/performance.md`).
const SCANNED: u64 = 16;

/// The same of narrowed rows, of which a scan takes eight queries at a time.
const SCANNED_NARROWED: u64 = 32;

/// Rows that the first threshold is taken from: at least, and where lists have room for more at most.
const SAMPLE: [u64; 2] = [2048, 8192];

/// Room of a list: at least, and for few queries at most. Long lists need fewer rounds.
const CAPACITY: [u64; 2] = [2048, 32_768];

/// So few distances are computed by the reporting kernel alone, without the dozen dispatches that nominating takes.
const SMALL_PAIRS: u64 = 4096;

/// When less than this share of the rows is allowed, their distances are computed without scoring the others: the reporting
/// kernel has about a tenth of a tile's speed.
const SELECTIVE: u64 = 16;

/// The same where integers are scored, which is several times as fast.
const SELECTIVE_NARROWED: u64 = 64;

/// Queries of a batch at most: enough that reading the rows costs little beside the arithmetic.
const BATCH: u64 = 1024;

/// How rows are found that may be among the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// A kernel scores all rows; the ones it cannot exclude are rescored.
    Nominate {
        /// The kernel.
        kernel: Nominator,
        /// Rows that can survive, a query. A query with more is searched again: in f32, then exhaustively.
        capacity: u32,
        /// Blocks of 128 rows that are scored at a time.
        chunk_blocks: u32,
        /// How many such chunks.
        chunks: u32,
    },
    /// The reporting kernel computes the distance of every row.
    Exhaustive {
        /// Rows at a time.
        chunk_rows: u32,
    },
    /// The host engine scores all rows, on its threads; those it cannot exclude are rescored.
    Host {
        /// Whether scores are of the narrowed copy.
        is_screened: bool,
    },
}

/// How a search will run. `Display` prints it in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Queries in all.
    pub queries: u64,
    /// Neighbours wanted, no more than there are rows.
    pub k: u32,
    /// Queries that are searched together.
    pub batch: u32,
    /// How.
    pub route: Route,
    /// Scratch bytes of a batch.
    pub scratch_bytes: u64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batches = self.queries.div_ceil(self.batch.into());
        let plural =
            |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
        let batches = plural(batches, "batch", "batches");
        let queries = plural(self.batch.into(), "query", "queries");
        write!(f, "{batches} of up to {queries}, k = {}: ", self.k)?;
        match self.route {
            Route::Nominate { kernel, capacity, chunk_blocks, chunks } => {
                let kernel = kernel.stage();
                let rows = u64::from(chunk_blocks) * u64::from(BLOCK_ROWS);
                let chunks = plural(chunks.into(), "chunk", "chunks");
                write!(f, "{kernel} nominates in {chunks} of up to {rows} rows, ")?;
                write!(f, "lists of {capacity} rows a query, then rescore and select_k")?;
            }
            Route::Exhaustive { chunk_rows } => {
                write!(f, "rescore of every row in chunks of {chunk_rows}, then select_k")?;
            }
            Route::Host { is_screened } => {
                let kind = if is_screened { "integers" } else { "f32" };
                write!(f, "the host engine scores every row in {kind}, then rescores what is left")?;
            }
        }
        write!(f, "; {} bytes of scratch", self.scratch_bytes)
    }
}

impl Plan {
    pub(crate) fn new(rows: &GpuRows, queries: u64, k: u64, room: Room<'_>) -> Result<Self> {
        let found = room.found(rows);
        let k = k.min(found).max(1);
        let queries = queries.max(1);
        let is_small = rows.end() * queries <= SMALL_PAIRS;
        // Where every row may well be needed, nothing is won by nominating either.
        if is_small || k * 16 > found || is_selective(rows, room) {
            return Self::exhaustive(rows, queries, k, room);
        }
        Self::nominating(rows, true, queries, k, room)
            .map_or_else(|| Self::nominating_or_exhaustive(rows, queries, k, room), Ok)
    }

    /// The plan for `queries` queries whose lists overflowed under this one: without narrowing, then without lists.
    pub(crate) fn again(&self, rows: &GpuRows, queries: u64, room: Room<'_>) -> Result<Self> {
        let k = u64::from(self.k);
        match self.route {
            Route::Nominate { kernel, .. } if kernel.is_narrowed() => {
                Self::nominating_or_exhaustive(rows, queries, k, room)
            }
            _ => Self::exhaustive(rows, queries, k, room),
        }
    }

    /// The plan for all rows within a radius, with lists of at least `capacity` rows; none when they do not fit the budget, or
    /// when few rows are allowed.
    pub(crate) fn within(rows: &GpuRows, queries: u64, capacity: u64, room: Room<'_>) -> Option<Self> {
        if is_selective(rows, room) {
            return None;
        }
        let narrowed = rows.narrowed.is_some();
        Self::nominating_on_lists(rows, narrowed, queries, 1, capacity, room)
    }

    fn nominating_or_exhaustive(rows: &GpuRows, queries: u64, k: u64, room: Room<'_>) -> Result<Self> {
        match Self::nominating(rows, false, queries, k, room) {
            Some(plan) => Ok(plan),
            None => Self::exhaustive(rows, queries, k, room),
        }
    }

    fn nominating(rows: &GpuRows, narrowed: bool, queries: u64, k: u64, room: Room<'_>) -> Option<Self> {
        let least = (16 * k).next_power_of_two().max(CAPACITY[0]);
        Self::nominating_on_lists(rows, narrowed, queries, k, least, room)
    }

    /// The kernel for so many queries, or where the budget is too small for its batches the one that takes few at a time.
    fn nominating_on_lists(
        rows: &GpuRows,
        narrowed: bool,
        queries: u64,
        k: u64,
        least: u64,
        room: Room<'_>,
    ) -> Option<Self> {
        let (scan, tile, scanned) = match (narrowed, &rows.narrowed) {
            (false, _) => (Nominator::Scan, Nominator::Tile, SCANNED),
            (true, Some(NarrowedRows { side: Some(_), .. })) => {
                (Nominator::ScanI8, Nominator::TileCoop, SCANNED_NARROWED)
            }
            (true, Some(_)) => (Nominator::ScanI8, Nominator::TileI8, SCANNED_NARROWED),
            (true, None) => return None,
        };
        let batch = if rows.gpu.adapter.kind == AdapterKind::Software { BATCH / 4 } else { BATCH };
        let by = |kernel, most, capacity| Self::nominating_by(kernel, rows, most, queries, k, capacity, room);
        // A fifth of the scratch for longer lists.
        let longer = |most: u64| {
            let fits =
                usable(room.budget).saturating_sub(room.bits_bytes()) / 5 / (queries.min(most) * ENTRY_BYTES);
            if fits > least { (fits + 1).next_power_of_two() / 2 } else { least }.min(CAPACITY[1].max(least))
        };
        let tiles = if queries > scanned { by(tile, batch, longer(batch)) } else { None };
        tiles.or_else(|| by(scan, scanned, longer(scanned))).or_else(|| by(scan, scanned, least))
    }

    fn nominating_by(
        kernel: Nominator,
        rows: &GpuRows,
        most: u64,
        queries: u64,
        k: u64,
        capacity: u64,
        room: Room<'_>,
    ) -> Option<Self> {
        let usable = usable(room.budget).saturating_sub(room.bits_bytes());
        let binding = rows.gpu.adapter.capabilities.max_binding_bytes;
        let all_blocks: u64 = rows.segments.iter().map(|segment| u64::from(segment.blocks())).sum();
        let smallest = kernel.padded(1);
        let mut batches = queries.div_ceil(most);
        loop {
            // Batches of equal size.
            let batch = kernel.padded(queries.div_ceil(batches));
            let lists = batch * (query_bytes(rows, k, capacity) + kernel.narrowed_bytes(rows));
            let block_bytes = batch * u64::from(BLOCK_ROWS) * 4;
            let fits = usable.saturating_sub(lists).min(binding) / block_bytes;
            let blocks = fits.min(all_blocks).min(chunk_limit(rows, batch));
            let enough = if batch == smallest { 8 } else { 64 };
            if batch * capacity * 12 <= binding && blocks >= all_blocks.min(enough) {
                // Chunks of equal size.
                let chunks = all_blocks.div_ceil(blocks);
                let chunk_blocks = all_blocks.div_ceil(chunks);
                return Some(Self {
                    queries,
                    k: k as u32,
                    batch: batch.min(queries) as u32,
                    route: Route::Nominate {
                        kernel,
                        capacity: capacity as u32,
                        chunk_blocks: chunk_blocks as u32,
                        chunks: chunks as u32,
                    },
                    scratch_bytes: lists + chunk_blocks * block_bytes + room.bits_bytes(),
                });
            }
            if batch == smallest {
                return None;
            }
            batches *= 2;
        }
    }

    pub(crate) fn exhaustive(rows: &GpuRows, queries: u64, k: u64, room: Room<'_>) -> Result<Self> {
        let binding = rows.gpu.adapter.capabilities.max_binding_bytes;
        let usable = usable(room.budget).saturating_sub(room.list_bytes());
        // Two places for keys and ids, and a third for sorting many results.
        let places = if k > u64::from(SORTED_MAX) { 3 } else { 2 };
        let longest = rows.segments.iter().map(|segment| u64::from(segment.len)).max().unwrap_or(1);
        let longest = longest.min(room.listed().unwrap_or(longest)).max(1);
        let query_bytes = rows.layout.stride as u64 * 4 + 16;
        let fitting = |chunk: u64| {
            let bytes = places * 12 * (k + chunk) + query_bytes;
            (usable / bytes).min(binding / (8 * (k + chunk)))
        };
        let least = longest.min(128);
        let mut chunk = longest.min((2 * k).max(4096));
        while chunk > least && fitting(chunk) == 0 {
            chunk = (chunk / 2).max(least);
        }
        let batch =
            fitting(chunk).min(queries).min(BATCH).min(rows.gpu.adapter.capabilities.max_workgroups.into());
        if batch == 0 && queries > 0 {
            let purpose = format!("a search for the {k} nearest of {} rows", room.found(rows));
            // More budget would not help where the adapter does not see so much at once.
            rows.gpu.check_binding(&purpose, 8 * (k + least))?;
            return Err(Error::Budget {
                purpose,
                needed: budget_for(places * 12 * (k + least) + query_bytes + room.list_bytes()),
                budget: room.budget,
            });
        }
        // The fewer chunks the better, as far as memory and the length of a submission go.
        let batch = batch.max(1);
        // This kernel reads a row for every query, and runs at about a tenth of a tile's speed.
        // One workgroup selects from a query's chunk: a million elements take it 20 ms on a fast card.
        let most =
            (submission_flops(rows) / 10 / (2 * batch * rows.layout.stride as u64)).clamp(least, 1 << 20);
        while 2 * chunk <= longest.min(most) && fitting(2 * chunk) >= batch {
            chunk *= 2;
        }
        let chunk = chunk.min(most);
        Ok(Self {
            queries,
            k: k as u32,
            batch: batch as u32,
            route: Route::Exhaustive { chunk_rows: chunk as u32 },
            scratch_bytes: batch * (places * 12 * (k + chunk) + query_bytes) + room.list_bytes(),
        })
    }
}

/// Whether so few rows are allowed that computing their distances costs less than scoring all rows.
pub(crate) fn is_selective(rows: &GpuRows, room: Room<'_>) -> bool {
    let share = if rows.narrowed.is_some() { SELECTIVE_NARROWED } else { SELECTIVE };
    room.allowed.is_some_and(|allowed| allowed.count() * share <= rows.end())
}

impl Nominator {
    /// Queries that buffers have room for.
    pub(crate) fn padded(self, queries: u64) -> u64 {
        queries.next_multiple_of(match self {
            Self::Scan => distance_scan::QUERIES_AT_ONCE.into(),
            Self::ScanI8 => screen_scan_i8::QUERIES_AT_ONCE.into(),
            Self::Tile | Self::TileI8 | Self::TileCoop => TILE_QUERIES.into(),
        })
    }

    pub(crate) fn is_narrowed(self) -> bool {
        matches!(self, Self::ScanI8 | Self::TileI8 | Self::TileCoop)
    }

    /// How many times k rows pass a threshold, of as many rows as it was taken from: more where intervals are wider. With
    /// integers they may be as wide as the distances of a cluster differ (data around 256 centres, noise as large as those).
    pub(crate) fn spread(self) -> u32 {
        match self {
            Self::Scan | Self::Tile => 4,
            Self::ScanI8 => 8,
            Self::TileI8 | Self::TileCoop => 16,
        }
    }

    /// Planes of integers that each of so many queries is narrowed to. One or two queries are the sum of two, which makes
    /// their own residual vanish at no cost: their scan waits for memory. More would wait for arithmetic.
    pub(crate) fn planes(self, queries: u64) -> u32 {
        match self {
            Self::Scan | Self::Tile => 0,
            Self::ScanI8 if queries <= 2 => 2,
            Self::ScanI8 | Self::TileI8 | Self::TileCoop => 1,
        }
    }

    /// Bytes a query of integers and terms, blocks of a scan's few queries counted in full.
    fn narrowed_bytes(self, rows: &GpuRows) -> u64 {
        if !self.is_narrowed() {
            return 0;
        }
        let padded = u64::from(BLOCK_ROWS) / self.padded(1).min(BLOCK_ROWS.into());
        u64::from(self.planes(1)) * narrow::plane_bytes(1, rows.dim) / u64::from(BLOCK_ROWS) * padded + 16
    }

    pub(crate) fn stage(self) -> &'static str {
        match self {
            Self::Scan => "distance_scan",
            Self::Tile => "distance_tile",
            Self::ScanI8 => "screen_scan_i8",
            Self::TileI8 => "screen_tile_i8",
            Self::TileCoop => "screen_tile_coop",
        }
    }
}

/// Bytes that a plan leaves to the rounding of small buffers.
const SMALL_BUFFERS: u64 = 16 << 10;

/// What is left of a budget when every buffer is rounded up to its size class.
pub(crate) fn usable(budget: u64) -> u64 {
    (budget / 8 * 7).saturating_sub(SMALL_BUFFERS)
}

/// The smallest budget of which so many bytes are usable.
pub(crate) fn budget_for(bytes: u64) -> u64 {
    (bytes + SMALL_BUFFERS).div_ceil(7) * 8
}

/// Scratch bytes of an entry of a list: slot and interval, and the distance and id of the row.
const ENTRY_BYTES: u64 = 24;

/// Scratch bytes of a query beside its scores.
fn query_bytes(rows: &GpuRows, k: u64, capacity: u64) -> u64 {
    let results = if k > u64::from(SORTED_MAX) { 24 * k } else { 12 * k };
    rows.layout.stride as u64 * 4 + 8 + 16 + 4 + ENTRY_BYTES * capacity + results
}

/// Operations of a submission at most: about 100 ms on a weak adapter of the kind, because systems kill what runs for
/// seconds. Nobody kills a software adapter.
pub(crate) fn submission_flops(rows: &GpuRows) -> u64 {
    match rows.gpu.adapter.kind {
        AdapterKind::Software => 20_000_000_000,
        AdapterKind::Discrete => 400_000_000_000,
        _ => 40_000_000_000,
    }
}

/// Blocks whose scores one submission computes, no more than a grid has workgroups.
fn chunk_limit(rows: &GpuRows, batch: u64) -> u64 {
    let block_flops = 2 * batch * u64::from(BLOCK_ROWS) * rows.layout.stride as u64;
    (submission_flops(rows) / block_flops).clamp(8, rows.gpu.adapter.capabilities.max_workgroups.into())
}

/// Chunk number `chunk` of `chunks`: every `chunks`-th block of all segments, so that no order of insertion makes the
/// rows of one chunk unlike those of another.
pub(crate) fn chunk_parts(segments: &[Segment], chunk: u32, chunks: u32) -> Vec<Part> {
    let mut parts = vec![];
    let mut first_block = 0u64;
    let mut column_first = 0;
    for (index, segment) in segments.iter().enumerate() {
        let block_first = ((u64::from(chunk) + u64::from(chunks) - first_block % u64::from(chunks))
            % u64::from(chunks)) as u32;
        let blocks = segment.blocks().saturating_sub(block_first).div_ceil(chunks);
        if blocks > 0 {
            parts.push(Part { segment: index, block_first, block_step: chunks, blocks, column_first });
            column_first += blocks * BLOCK_ROWS;
        }
        first_block += u64::from(segment.blocks());
    }
    parts
}

/// The rounds in which a chunk of `blocks` blocks is looked at, after `seen` rows were: each as large as the threshold so
/// far allows, so that lists do not overflow.
///
/// A threshold that was taken from some rows lets `spread` times k as many of as many others pass.
pub(crate) fn rounds(blocks: u32, seen: u64, k: u32, capacity: u32, spread: u32) -> Vec<Round> {
    // Rows that were inserted in the order of their distance lie in neighbouring groups: a round that looks at g times as
    // many groups as were seen may then keep all rows of g - 1 groups, on either side of the query.
    let growth = (u64::from(capacity) / (u64::from(spread) * u64::from(k)).max(u64::from(2 * GROUP))).max(2);
    let growth_step = (growth + 1).next_power_of_two() / 2;
    let rows = u64::from(blocks) * u64::from(BLOCK_ROWS);
    // Without a threshold all rows are kept. As many as let all others be looked at in one round; steps are powers of two.
    let sample = (2 * rows / growth).clamp(SAMPLE[0], SAMPLE[1]).max(4 * u64::from(k)).min(capacity.into());
    let mut allowed = if seen == 0 { sample } else { seen * growth };
    let most = rows / u64::from(GROUP);
    let mut step = 1;
    while rows.div_ceil(step) + u64::from(GROUP) > allowed && step < most {
        step *= 2;
    }
    let mut rounds = vec![Round { step: step as u32, skip: 0 }];
    while step > 1 {
        // After this round 1 / step of the chunk has been seen.
        allowed = (seen + rows.div_ceil(step)) * growth;
        let mut next = step;
        while next > 1 && rows / (next / 2) <= allowed {
            next /= 2;
        }
        let next = if next == step { (step / growth_step.max(2)).max(1) } else { next };
        rounds.push(Round { step: next as u32, skip: step as u32 });
        step = next;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_look_at_every_group_once() {
        for blocks in [1, 2, 7, 8, 9, 100, 391, 5000] {
            for (seen, k, capacity) in [
                (0, 1, 1024),
                (0, 10, 1024),
                (0, 10, 16_384),
                (0, 128, 2048),
                (4096, 10, 1024),
                (1 << 30, 10, 1024),
            ] {
                let rounds = rounds(blocks, seen, k, capacity, if k == 10 { 16 } else { 4 });
                let groups = blocks * (BLOCK_ROWS / GROUP);
                for group in 0..groups {
                    let looks = rounds.iter().filter(|round| {
                        group % round.step == 0 && (round.skip == 0 || group % round.skip != 0)
                    });
                    assert_eq!(looks.count(), 1, "group {group} of {groups}, {rounds:?}");
                }
                if seen == 0 {
                    let first = u64::from(groups.div_ceil(rounds[0].step)) * u64::from(GROUP);
                    assert!(
                        first <= u64::from(capacity),
                        "{blocks} {rounds:?}: without a threshold all rows are kept"
                    );
                }
            }
        }
    }
}
