//! Which form a search in lists takes, and in what batches and blocks, under the budget.

use crate::engine::lists::centroids::Coarse;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::SegmentTables;
use crate::engine::search::plan::{budget_for, submission_flops, usable};
use crate::error::{Error, Result};
use crate::kernels::screen_lists_i8::HEIGHT;
use crate::kernels::{BLOCK_ROWS, narrow, select_k, winnow};

/// How a batch is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) coarse: Coarse,
    pub(crate) k: u32,
    /// Queries at a time.
    pub(crate) batch: u32,
    /// Entries of a query's list: all rows that it can have in the candidate form.
    pub(crate) capacity: u32,
    /// Blocks of scores that there is room for; 0 in the candidate form.
    pub(crate) blocks: u32,
}

/// Queries up to which the candidate form is the quicker one.
const FEW: u64 = 64;

/// Queries of a batch at most.
const BATCH: u64 = 8192;

/// Bytes of a block of scores.
pub(crate) const BLOCK_BYTES: u64 = HEIGHT as u64 * BLOCK_ROWS as u64 * 4;

impl Probing<'_> {
    /// The form for so many queries, or for those whose lists overflowed in another.
    pub(crate) fn form(&self, queries: u64, is_again: bool) -> Result<Form> {
        let k = (self.request.k as u64).min(self.rows.len()).max(1) as u32;
        let is_major = !is_again && queries > FEW && k <= winnow::K_MAX && self.rows.narrowed.is_some();
        let coarse = Coarse::new(self.centroids, self.probes, queries);
        let coarse = if is_again { coarse.exhaustive() } else { coarse };
        if is_major && let Some(form) = self.major(coarse, k, queries) {
            return Ok(form);
        }
        let capacity = self.tables.most_rows(self.probes).max(1);
        let results = if k > select_k::SORTED_MAX { 24 } else { 12 } * u64::from(k);
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let room = usable(self.request.budget).saturating_sub(self.allowed_bytes());
        let each = |coarse: Coarse| {
            let entries = capacity * 4 + capacity.max(coarse.entries(self.centroids)) * 12;
            self.own_bytes() + results + entries + coarse.screen_bytes(self.centroids)
        };
        let widest = |coarse: Coarse| (8 * capacity.max(k.into())).max(coarse.widest(self.centroids));
        let most = |coarse: Coarse| {
            let fits = (room / each(coarse)).min(binding / widest(coarse));
            // The reporting kernel has about a tenth of a tile's speed.
            let flops = 20 * (capacity + coarse.entries(self.centroids)) * self.rows.layout.stride as u64;
            let quick = (submission_flops(self.rows) / flops).max(coarse.unit().into());
            let most = fits.min(BATCH).min(quick).min(u64::from(u32::MAX) / capacity);
            most - most % u64::from(coarse.unit())
        };
        // Where there is no room for a tile of queries, there may be for one.
        let coarse = if most(coarse) > 0 { coarse } else { coarse.exhaustive() };
        let batch = most(coarse).min(queries) as u32;
        if batch == 0 {
            let purpose = format!("a search of {} of {} lists", self.probes, self.lists());
            self.rows.gpu.check_binding(&purpose, widest(coarse))?;
            let needed = budget_for(each(coarse) + self.allowed_bytes());
            return Err(Error::Budget { purpose, needed, budget: self.request.budget });
        }
        Ok(Form { coarse: coarse.of(batch), k, batch, capacity: capacity as u32, blocks: 0 })
    }

    /// Scratch bytes a query of itself and its probes.
    fn own_bytes(&self) -> u64 {
        let probes = u64::from(self.probes) * if self.probes > select_k::SORTED_MAX { 24 } else { 12 };
        self.rows.vectors_bytes() + 8 + probes + 16
    }

    /// The list-major form, where the budget has room for it.
    fn major(&self, coarse: Coarse, k: u32, queries: u64) -> Option<Form> {
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let capacity = (16 * u64::from(k)).next_power_of_two().max(512);
        let narrowed = narrow::plane_bytes(BLOCK_ROWS.into(), self.rows.dim) / u64::from(BLOCK_ROWS) + 16;
        let entries = capacity.max(coarse.entries(self.centroids)) * 24 + 8;
        let scores = coarse.score_bytes(self.centroids);
        let each =
            self.own_bytes() + u64::from(k) * 12 + 2 * narrowed + u64::from(self.probes) * 24 + entries;
        let lists = u64::from(self.lists()) * 16 + self.allowed_bytes();
        let room = usable(self.request.budget).checked_sub(lists)?;
        let unit = u64::from(BLOCK_ROWS);
        // Blocks are not full: about half of what is scored is nobody's.
        let scored =
            u64::from(self.lists()) + 2 * u64::from(self.probes) * self.rows.len() / u64::from(self.lists());
        let quick = submission_flops(self.rows) / (2 * scored * self.rows.layout.stride as u64);
        let most = (room / 2 / each)
            .min(room / (each + scores))
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
        let blocks = ((room - batch * each).min(binding) / BLOCK_BYTES).min(wanted);
        // With few blocks at a time many dispatches find nothing to do.
        if blocks == 0 || wanted / blocks > 64 || wanted > 1 << 31 {
            return None;
        }
        let batch = batch as u32;
        Some(Form { coarse: coarse.of(batch), k, batch, capacity: capacity as u32, blocks: blocks as u32 })
    }
}
