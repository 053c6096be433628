//! Makes plans: which kernel screens, and how large batches and chunks are, under the budget.

use crate::engine::rows::allowed::Scope;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::list::{behind, screens};
use crate::engine::screens::score::{ScoreKernel, ScreenKernels};
use crate::engine::search::chunks::{chunk_limit, submission_flops};
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::screening::PICKED_BLOCKS;
use crate::error::{Error, Result};
use crate::gpu::{AdapterKind, budget_for, usable};
use crate::kernels::BLOCK_ROWS;
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::select_k::SORTED_MAX;

/// Listing and copying an allowed row takes as long as scoring another row for about this many queries (on an H200, at dims 128 and 768).
const GATHERING: u64 = 2000;

/// For up to this many distances of allowed rows, gathering their codes and screening them takes about as long as to compute them.
const REFINED_PAIRS: u64 = 1 << 19;

/// Candidates that a query's list holds: at least, and at most if there are few queries. Long lists need fewer rounds.
const CAPACITY: [u64; 2] = [2048, 32_768];

/// Up to this many distances are computed by `refine` alone, without the dozen dispatches of a screen.
pub(crate) const SMALL_PAIRS: u64 = 4096;

/// Where the host has the rows, it computes the distances of this many that a filter allows while the device would launch a screen.
pub(crate) const FEW_ROWS: u64 = 1024;

/// How many times longer the lists are of queries whose candidates overflowed, where the host has the rows.
const LONGER: u64 = 8;

/// The largest batch of an exhaustive search.
const BATCH: u64 = 1024;

/// Blocks of the sample that the first threshold is taken from, where the others are collected as they are scored.
const SAMPLE_BLOCKS: u64 = 64;

impl Plan {
    /// The plan for the k nearest rows of each query.
    pub(crate) fn new(rows: &GpuRows, queries: u64, k: u64, scope: Scope<'_>) -> Result<Self> {
        let k = k.min(scope.found(rows)).max(1);
        let screened = Self::screened(rows, queries, k, scope);
        screened.map_or_else(|| Self::exhaustive(rows, queries.max(1), k, scope), Ok)
    }

    /// The plan with a screen; none where computing all distances takes no longer, or where no screen fits the budget.
    pub(crate) fn screened(rows: &GpuRows, queries: u64, k: u64, scope: Scope<'_>) -> Option<Self> {
        let found = scope.found(rows);
        let (queries, k) = (queries.max(1), k.min(found).max(1));
        let is_small = rows.end().saturating_mul(queries) <= SMALL_PAIRS;
        // If many of the rows may be among the nearest, screening saves nothing.
        if is_small || k * 16 > found {
            return None;
        }
        let gathered = Self::gathered(rows, (queries, k), scope);
        if gathered.is_some() || is_selective(rows, scope) {
            return gathered;
        }
        Self::by_screens(&screens(rows), rows, (queries, k), least_capacity(k), scope)
    }

    /// The plan that screens the allowed rows alone. None where computing all their distances takes no longer, and where they do not fit
    /// the budget.
    fn gathered(rows: &GpuRows, (queries, k): (u64, u64), scope: Scope<'_>) -> Option<Self> {
        let found = scope.found(rows);
        let saved = queries.saturating_mul(rows.end().saturating_sub(found));
        if saved < GATHERING.saturating_mul(found) || found.saturating_mul(queries) <= REFINED_PAIRS {
            return None;
        }
        let gathered = rows.to_gather(scope)?;
        let bytes: u64 = gathered.gathered_bytes().iter().sum();
        let rest = Scope { budget: scope.budget.saturating_sub(budget_for(bytes)), allowed: None };
        let screen = screens(&gathered).into_iter().next()?;
        let plan = Self::by_screen(screen, &gathered, queries, k, least_capacity(k), rest)?;
        let Route::Screened { kernel, .. } = plan.route else { return None };
        let scratch_bytes = plan.scratch_bytes + bytes;
        kernel.kernel().is_quantized().then_some(Self { gathers: true, scratch_bytes, ..plan })
    }

    /// The plan for queries whose candidates overflowed under this one: with the next screen, then exhaustive. Where a filter allows few rows,
    /// their distances cost less than the next screen of all.
    pub(crate) fn again(&self, rows: &GpuRows, queries: u64, scope: Scope<'_>) -> Result<Self> {
        if is_selective(rows, scope) {
            return Self::exhaustive(rows, queries, self.k.into(), scope);
        }
        let screens = screens(rows);
        let rest = match self.route {
            Route::Screened { kernel, .. } => behind(&screens, kernel),
            _ => &[],
        };
        let k = u64::from(self.k);
        let screened = Self::by_screens(rest, rows, (queries, k), least_capacity(k), scope);
        screened.map_or_else(|| Self::exhaustive(rows, queries, k, scope), Ok)
    }

    /// The plan for queries whose candidates overflowed under this one, with the same screen and longer lists; none where longer lists would
    /// hold all rows or do not fit the budget.
    pub(crate) fn longer(&self, rows: &GpuRows, queries: u64, scope: Scope<'_>) -> Option<Self> {
        let Route::Screened { capacity, .. } = self.route else { return None };
        let longer = u64::from(capacity) * LONGER;
        if longer > rows.end() {
            return None;
        }
        Self::by_screens(&screens(rows), rows, (queries, self.k.into()), longer, scope)
    }

    /// The plan for all rows within a radius, with lists of at least `capacity` candidates. None if they do not fit the budget, or if a
    /// filter allows few rows.
    pub(crate) fn within(rows: &GpuRows, queries: u64, capacity: u64, scope: Scope<'_>) -> Option<Self> {
        if is_selective(rows, scope) {
            return None;
        }
        let screen = screens(rows).into_iter().next()?;
        let mut plan = Self::by_screen(screen, rows, queries, 1, capacity, scope)?;
        // A kernel that collects as it scores needs no sample.
        if let Route::Screened { kernel, chunk_blocks, stored_chunks, .. } = &mut plan.route
            && kernel.kernel().collects.is_some()
        {
            plan.scratch_bytes -= u64::from(*chunk_blocks) * score_bytes(kernel.kernel(), plan.batch.into());
            (*chunk_blocks, *stored_chunks) = (0, 0);
        }
        Some(plan)
    }

    /// The plan with the first screen that fits the budget, with lists of at least `least` candidates.
    fn by_screens(
        screens: &[&ScreenKernels],
        rows: &GpuRows,
        (queries, k): (u64, u64),
        least: u64,
        scope: Scope<'_>,
    ) -> Option<Self> {
        screens.iter().find_map(|screen| Self::by_screen(screen, rows, queries, k, least, scope))
    }

    /// The plan with the screen's kernel for this many queries. If the budget is too small for its batches, the kernels for fewer take
    /// them a few at a time.
    fn by_screen(
        screen: &ScreenKernels,
        rows: &GpuRows,
        queries: u64,
        k: u64,
        least: u64,
        scope: Scope<'_>,
    ) -> Option<Self> {
        let kernels = screen.kernels;
        // A first search of some queries does not wait for the compiler of its tile.
        let few = if screen.is_compiling(rows) { TILE_QUERIES.into() } else { 0 };
        let fitting = kernels.iter().position(|kernel| queries <= kernel.most_queries.max(few));
        let fitting = fitting.map_or(kernels, |place| &kernels[..=place]);
        let mut plans = fitting.iter().rev().flat_map(|kernel| {
            let is_slow = rows.gpu.adapter.kind == AdapterKind::Software && kernel.unit == TILE_QUERIES;
            let most = if is_slow { kernel.most_queries / 4 } else { kernel.most_queries };
            // Where the host refines, it works on one batch while the device screens the next: a single batch would leave either idle.
            let tile = u64::from(TILE_QUERIES);
            let quarter = queries.div_ceil(4).next_multiple_of(tile).max(2 * tile);
            let most = if rows.keeps_rows { most } else { most.min(quarter) };
            // Lists may take a fifth of the scratch memory, or half of it where few scores need memory.
            let share = if kernel.collects.is_some() { 2 } else { 5 };
            let fits = scope.usable() / share / (kernel.padded(queries.min(most)) * entry_bytes(rows));
            let longer = if fits > least { (fits + 1).next_power_of_two() / 2 } else { least };
            let longer = longer.min(CAPACITY[1].max(least));
            let by = move |capacity| Self::by_kernel(kernel, rows, most, (queries, k), capacity, scope);
            [longer, least].into_iter().filter_map(by)
        });
        plans.next()
    }

    /// The plan with this kernel and batches of up to `most` queries.
    fn by_kernel(
        kernel: &'static ScoreKernel,
        rows: &GpuRows,
        most: u64,
        (queries, k): (u64, u64),
        capacity: u64,
        scope: Scope<'_>,
    ) -> Option<Self> {
        let usable = scope.usable();
        let binding = rows.gpu.adapter.capabilities.max_binding_bytes;
        let all_blocks: u64 = rows.segments.iter().map(|segment| u64::from(segment.blocks())).sum();
        let smallest = kernel.padded(1);
        let mut batches = queries.div_ceil(most);
        loop {
            // Batches of equal size.
            let batch = kernel.padded(queries.div_ceil(batches));
            let own_bytes = batch * (query_bytes(rows, k, capacity) + kernel.quantized_bytes(rows));
            let block_bytes = score_bytes(kernel, batch);
            let fits = usable.saturating_sub(own_bytes).min(binding) / block_bytes;
            // The number of chunks is rounded up to a power of two, which may halve the sample.
            let sample = if kernel.scores_with(batch).has_bests() { 2 * PICKED_BLOCKS * k } else { 0 };
            let stored = if kernel.collects.is_some() { SAMPLE_BLOCKS.max(sample) } else { all_blocks };
            let blocks = fits.min(all_blocks).min(stored).min(chunk_limit(rows, kernel, batch));
            let enough = if batch == smallest { 8 } else { 64 };
            if batch * capacity * 12 <= binding && blocks >= all_blocks.min(enough) {
                // Chunks of equal size; a sample takes one block of a power of two.
                let chunks = all_blocks.div_ceil(blocks);
                let chunks = if kernel.collects.is_some() { chunks.next_power_of_two() } else { chunks };
                let chunk_blocks = all_blocks.div_ceil(chunks);
                let route = Route::Screened {
                    kernel: kernel.name,
                    capacity: capacity as u32,
                    chunk_blocks: chunk_blocks as u32,
                    chunks: chunks as u32,
                    stored_chunks: if kernel.collects.is_some() { 1 } else { chunks as u32 },
                };
                let scratch_bytes = own_bytes + chunk_blocks * block_bytes + scope.bits_bytes();
                let plan = Self::of([queries, k, batch.min(queries)], route, scratch_bytes);
                return Some(Self { reports_on_host: !rows.keeps_rows, ..plan });
            }
            if batch == smallest {
                return None;
            }
            batches *= 2;
        }
    }

    /// The plan that computes the distance of every row.
    pub(crate) fn exhaustive(rows: &GpuRows, queries: u64, k: u64, scope: Scope<'_>) -> Result<Self> {
        let binding = rows.gpu.adapter.capabilities.max_binding_bytes;
        let usable = usable(scope.budget).saturating_sub(scope.list_bytes());
        // Two places for keys and ids, and a third for sorting many results.
        let places = if k > u64::from(SORTED_MAX) { 3 } else { 2 };
        let longest = rows.segments.iter().map(|segment| u64::from(segment.len)).max().unwrap_or(1);
        let longest = longest.min(scope.listed().unwrap_or(longest)).max(1);
        let query_bytes = rows.query_bytes() + 16;
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
            let purpose = format!("a search for the {k} nearest of {} rows", scope.found(rows));
            // If the binding limit is the cause, a larger budget would not help.
            rows.gpu.check_binding(&purpose, 8 * (k + least))?;
            return Err(Error::Budget {
                purpose,
                needed: budget_for(places * 12 * (k + least) + query_bytes + scope.list_bytes()),
                budget: scope.budget,
            });
        }
        // As few chunks as memory and the length of a submission permit. `refine` reads a row for every query and reaches about a
        // tenth of a tile's speed. One workgroup selects from a query's chunk: a million elements take it 20 ms on a fast card.
        let batch = batch.max(1);
        let most = (submission_flops(rows.gpu.adapter.kind) / 10 / (2 * batch * rows.layout.stride as u64))
            .clamp(least, 1 << 20);
        while 2 * chunk <= longest.min(most) && fitting(2 * chunk) >= batch {
            chunk *= 2;
        }
        let chunk = chunk.min(most);
        let scratch_bytes = batch * (places * 12 * (k + chunk) + query_bytes) + scope.list_bytes();
        Ok(Self::of([queries, k, batch], Route::Exhaustive { chunk_rows: chunk as u32 }, scratch_bytes))
    }
}

/// Candidates that a query's list holds at least.
fn least_capacity(k: u64) -> u64 {
    (16 * k).next_power_of_two().max(CAPACITY[0])
}

/// Whether a filter allows so few rows that computing their distances costs less than scoring all rows.
pub(crate) fn is_selective(rows: &GpuRows, scope: Scope<'_>) -> bool {
    if !rows.keeps_rows {
        return scope.allowed.is_some_and(|allowed| allowed.count <= FEW_ROWS);
    }
    let share = screens(rows)[0].selective_share;
    scope.allowed.is_some_and(|allowed| allowed.count * share <= rows.end())
}

/// Scratch bytes of a candidate: slot and interval, and the distance and id of the row; for rows on the host, two places that these are
/// read from.
fn entry_bytes(rows: &GpuRows) -> u64 {
    if rows.keeps_rows { 24 } else { 28 }
}

fn score_bytes(kernel: &'static ScoreKernel, batch: u64) -> u64 {
    kernel.padded(batch)
        * (u64::from(BLOCK_ROWS) * 4 + if kernel.scores_with(batch).has_bests() { 8 } else { 0 })
}

/// Scratch bytes of a query without its scores.
fn query_bytes(rows: &GpuRows, k: u64, capacity: u64) -> u64 {
    let results = if k > u64::from(SORTED_MAX) { 24 * k } else { 12 * k };
    rows.query_bytes() + 8 + 16 + 4 + entry_bytes(rows) * capacity + results
}
