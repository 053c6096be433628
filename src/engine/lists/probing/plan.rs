//! Plans a search in lists: which way it takes, and how large batches and blocks of scores are, under the budget.

use crate::engine::lists::coarse::Coarse;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::SegmentTables;
use crate::engine::rows::narrowed::TERMS_BYTES;
use crate::engine::search::chunks::submission_flops;
use crate::error::{Error, Result};
use crate::gpu::{budget_for, usable};
use crate::kernels::screen_lists_i8::HEIGHT;
use crate::kernels::{BLOCK_ROWS, select_k, winnow};

/// How batches of queries are searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbePlan {
    pub(crate) coarse: Coarse,
    pub(crate) k: u32,
    /// Queries at a time.
    pub(crate) batch: u32,
    /// Candidates that a query's list holds. If the search is not list-major, that is all rows it can have.
    pub(crate) capacity: u32,
    /// Blocks of scores at a time in a list-major search, and 0 in another.
    pub(crate) blocks: u32,
}

impl ProbePlan {
    pub(crate) fn is_list_major(&self) -> bool {
        self.blocks > 0
    }
}

/// For up to this many queries the list-major way is the slower one.
const FEW: u64 = 64;

/// The largest batch.
const BATCH: u64 = 8192;

/// Bytes of a block of scores.
pub(crate) const BLOCK_BYTES: u64 = HEIGHT as u64 * BLOCK_ROWS as u64 * 4;

impl Probing<'_> {
    /// The plan for this many queries. With `is_again` it is for queries whose candidates overflowed under another plan.
    pub(super) fn plan(&self, queries: u64, is_again: bool) -> Result<ProbePlan> {
        let k = (self.request.k as u64).min(self.rows.len()).max(1) as u32;
        let is_major = !is_again && queries > FEW && k <= winnow::K_MAX && self.rows.narrowed.is_some();
        let coarse = Coarse::new(self.centroids, self.probes, queries);
        let coarse = if is_again { coarse.exhaustive() } else { coarse };
        if is_major && let Some(plan) = self.list_major_plan(coarse, k, queries) {
            return Ok(plan);
        }
        let capacity = self.tables.most_rows(self.probes).max(1);
        let results = if k > select_k::SORTED_MAX { 24 } else { 12 } * u64::from(k);
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let available = self.request.scope().usable();
        let each = |coarse: Coarse| {
            let entries = capacity * 4 + capacity.max(coarse.entries(self.centroids)) * 12;
            self.own_bytes() + results + entries + coarse.screen_bytes(self.centroids)
        };
        let widest = |coarse: Coarse| (8 * capacity.max(k.into())).max(coarse.widest(self.centroids));
        let most = |coarse: Coarse| {
            let fits = (available / each(coarse)).min(binding / widest(coarse));
            // `rescore` reaches about a tenth of a tile's speed.
            let flops = 20 * (capacity + coarse.entries(self.centroids)) * self.rows.layout.stride as u64;
            let quick = (submission_flops(self.rows) / flops).max(coarse.unit().into());
            let most = fits.min(BATCH).min(quick).min(u64::from(u32::MAX) / capacity);
            most - most % u64::from(coarse.unit())
        };
        // A budget that is too small for a tile of queries may suffice for one query.
        let coarse = if most(coarse) > 0 { coarse } else { coarse.exhaustive() };
        let batch = most(coarse).min(queries) as u32;
        if batch == 0 {
            let purpose = format!("a search of {} of {} lists", self.probes, self.lists());
            self.rows.gpu.check_binding(&purpose, widest(coarse))?;
            let needed = budget_for(each(coarse) + self.request.scope().bits_bytes());
            return Err(Error::Budget { purpose, needed, budget: self.request.budget });
        }
        Ok(ProbePlan { coarse: coarse.of(batch), k, batch, capacity: capacity as u32, blocks: 0 })
    }

    /// Scratch bytes of a query and its probes.
    fn own_bytes(&self) -> u64 {
        let probes = u64::from(self.probes) * if self.probes > select_k::SORTED_MAX { 24 } else { 12 };
        self.rows.query_bytes() + 8 + probes + 16
    }

    /// The list-major plan. None if the budget is too small for it.
    fn list_major_plan(&self, coarse: Coarse, k: u32, queries: u64) -> Option<ProbePlan> {
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let capacity = (16 * u64::from(k)).next_power_of_two().max(512);
        let narrowed = self.rows.narrowed.as_ref()?.vector_bytes() + TERMS_BYTES;
        let entries = capacity.max(coarse.entries(self.centroids)) * 24 + 8;
        let scores = coarse.score_bytes(self.centroids);
        let each =
            self.own_bytes() + u64::from(k) * 12 + 2 * narrowed + u64::from(self.probes) * 24 + entries;
        let lists = u64::from(self.lists()) * 16 + self.request.scope().bits_bytes();
        let available = usable(self.request.budget).checked_sub(lists)?;
        let unit = u64::from(BLOCK_ROWS);
        // Blocks are not full: about half of the scores belong to no query.
        let scored =
            u64::from(self.lists()) + 2 * u64::from(self.probes) * self.rows.len() / u64::from(self.lists());
        let quick = submission_flops(self.rows) / (2 * scored * self.rows.layout.stride as u64);
        let most = (available / 2 / each)
            .min(available / (each + scores))
            .min(binding / (capacity * 12))
            .min(binding / (u64::from(self.probes) * 16))
            .min(binding / coarse.widest(self.centroids))
            .min(quick.max(unit))
            .min(BATCH);
        let batch =
            queries.div_ceil(queries.div_ceil(most.max(1))).next_multiple_of(unit).min(most / unit * unit);
        if batch < unit {
            return None;
        }
        let bound = |segment: &SegmentTables| segment.most_blocks(batch as u32, self.probes, HEIGHT);
        let wanted = self.tables.segments.iter().map(bound).max().unwrap_or(1).max(1);
        let blocks = ((available - batch * each).min(binding) / BLOCK_BYTES).min(wanted);
        // With few blocks at a time, many dispatches have nothing to do.
        if blocks == 0 || wanted / blocks > 64 || wanted > 1 << 31 {
            return None;
        }
        let batch = batch as u32;
        Some(ProbePlan {
            coarse: coarse.of(batch),
            k,
            batch,
            capacity: capacity as u32,
            blocks: blocks as u32,
        })
    }
}
