//! Plans a search in lists: which way it takes, and how large batches are, under the budget.

use std::ops::Range;

use crate::engine::lists::coarse::Coarse;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::rows::narrowed::TERMS_BYTES;
use crate::engine::search::chunks::submission_flops;
use crate::error::{Error, Result};
use crate::gpu::budget_for;
use crate::kernels::collect_lists::ListKernel;
use crate::kernels::{
    BLOCK_ROWS, collect_lists, collect_lists_coop, probe_thresholds, screen_tile_coop, select_k, table_bytes,
};

/// How the rows of the probed lists become candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All of them.
    Rows,
    /// Those that a screen on integers does not exclude, query by query.
    Queries,
    /// The same, list by list for all queries that probe it.
    Lists,
}

/// How batches of queries are searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbePlan {
    pub(crate) coarse: Coarse,
    pub(crate) k: u32,
    /// Queries at a time.
    pub(crate) batch: u32,
    pub(crate) way: Way,
    /// Candidates that a query's list holds. If all rows are candidates, that is all that it can have.
    pub(crate) capacity: u32,
}

/// A search of at most this many distances computes all of them, which takes less time than the dispatches of a screen.
const SMALL: u64 = 4096;

/// Grouping queries by list pays where a list has more queries than this on average: it is then read once for all of them.
const FEW_A_LIST: u64 = 1;

/// The largest batch.
const BATCH: u64 = 8192;

/// Candidates that a query's list holds: at least, and at most where there are few queries.
const CAPACITY: [u32; 2] = [1280, 16_384];

/// The largest k of a screen: as many rows as can give a threshold with some to spare.
const K_MAX: u32 = probe_thresholds::UPPERS / 2;

/// Where the rounds of a query's lists end, nearest first, before rounds of [`ROUND`] lists. A round that is far from its threshold may
/// keep most of its rows, so rounds begin small.
pub(super) const NEAR: [u32; 2] = [4, 16];

/// Lists of a later round: the table of blocks has room for them, and tiles of a batch of thousands are nearly full.
const ROUND: u32 = 96;

/// Tiles on matrices are faster than integer products where each list has at least this many queries. A tile takes as long for one query
/// as for 128.
const SHARED: u64 = 32;

/// Rows of the nearest lists that give the first threshold: at least.
const SAMPLE: u32 = 64;

/// Lists that they are taken from. The nearest alone would have more of the nearest rows for most queries, and none for some.
const SAMPLE_LISTS: u32 = 4;

/// The rows that give a query's first threshold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Enough rows.
    pub(crate) wanted: u32,
    /// Lists that are looked at.
    pub(crate) probes: u32,
    /// Turns of four pages of them. A filter may leave few of their rows.
    pub(crate) turns: u32,
}

impl ProbePlan {
    /// Whether another plan may find room for the candidates of a screen.
    fn can_be_longer(&self) -> bool {
        self.capacity < CAPACITY[1] || self.coarse.is_screened()
    }
}

impl Probing<'_> {
    /// The plan for this many queries. With another plan it is for queries whose candidates overflowed under that one: first with longer
    /// lists of candidates, then with all rows.
    pub(super) fn plan(&self, queries: u64, before: Option<ProbePlan>) -> Result<ProbePlan> {
        let k = (self.request.k as u64).min(self.rows.len()).max(1) as u32;
        let coarse = Coarse::new(self.centroids, self.probes, queries);
        let coarse = if before.is_some() { coarse.exhaustive() } else { coarse };
        let pairs = queries * u64::from(self.probes);
        let is_small = pairs * self.rows_a_list() <= SMALL;
        let is_last = before.is_some_and(|plan| plan.way == Way::Rows || !plan.can_be_longer());
        if self.rows.narrowed.is_some() && !is_last && !is_small && k <= K_MAX {
            let is_many = pairs > FEW_A_LIST * u64::from(self.lists());
            let way = if is_many { Way::Lists } else { Way::Queries };
            let least = CAPACITY[usize::from(before.is_some())];
            // A budget that is too small for a tile of queries may suffice for one query.
            let ways = [(way, coarse), (Way::Queries, coarse.exhaustive())];
            let mut plans =
                ways.into_iter().filter_map(|(way, coarse)| self.screened(way, coarse, [k, least], queries));
            if let Some(plan) = plans.next() {
                return Ok(plan);
            }
        }
        let capacity = self.tables.most_rows(self.probes).max(1);
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let available = self.request.scope().usable();
        let each = |coarse: Coarse| {
            let entries = capacity * 4 + capacity.max(coarse.entries(self.centroids)) * 12;
            self.own_bytes(k) + entries + coarse.screen_bytes(self.centroids)
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
        let coarse = if most(coarse) > 0 { coarse } else { coarse.exhaustive() };
        let batch = most(coarse).min(queries) as u32;
        if batch == 0 {
            let purpose = format!("a search of {} of {} lists", self.probes, self.lists());
            self.rows.gpu.check_binding(&purpose, widest(coarse))?;
            let needed = budget_for(each(coarse) + self.request.scope().bits_bytes());
            return Err(Error::Budget { purpose, needed, budget: self.request.budget });
        }
        let capacity = capacity as u32;
        Ok(ProbePlan { coarse: coarse.of(batch), k, batch, way: Way::Rows, capacity })
    }

    /// The rounds in which the lists of a query are searched, nearest first. Each lowers the threshold for the next.
    pub(super) fn rounds(&self, plan: &ProbePlan) -> Vec<Range<u32>> {
        // A list of candidates that is as long as lists get has room for all rows that pass a first threshold.
        if plan.way == Way::Queries && plan.capacity >= CAPACITY[1] {
            return std::iter::once(0..self.probes).collect();
        }
        self.short_rounds()
    }

    /// Rounds for short lists of candidates.
    fn short_rounds(&self) -> Vec<Range<u32>> {
        let later = (NEAR[1] + ROUND..).step_by(ROUND as usize);
        let is_listed = |end: u32| u64::from(end) * self.rows_a_list() <= CAPACITY[0].into();
        // A round needs no others before it if a list of candidates holds all of its rows.
        if is_listed(self.probes) {
            return std::iter::once(0..self.probes).collect();
        }
        let ends = NEAR.into_iter().chain(later).skip(is_listed(NEAR[1]).into());
        // A last round of few lists is not worth its dispatches.
        let ends = ends.take_while(|end| end + (end / 4).min(ROUND / 4) < self.probes);
        let ends: Vec<u32> = ends.chain([self.probes]).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, &end)| start..end).collect()
    }

    /// The most lists of a short round.
    pub(super) fn longest_round(&self) -> u32 {
        self.short_rounds().iter().map(|round| round.end - round.start).max().unwrap_or(0)
    }

    /// The rows that give first thresholds for this k.
    pub(super) fn sample(&self, k: u32) -> Sample {
        let wanted = (4 * k).clamp(SAMPLE, probe_thresholds::UPPERS);
        // A power of two.
        let probes = 1 << self.probes.min(SAMPLE_LISTS).ilog2();
        // Four times as many as if all places of the pages had a row that is allowed.
        let turns = wanted.div_ceil(BLOCK_ROWS) * 4;
        Sample { wanted, probes, turns }
    }

    /// The mean number of rows of a list.
    fn rows_a_list(&self) -> u64 {
        self.rows.len().div_ceil(self.lists().into())
    }

    /// Scratch bytes of a query, its probes and its results.
    fn own_bytes(&self, k: u32) -> u64 {
        let entry = |many: u32| u64::from(many) * if many > select_k::SORTED_MAX { 24 } else { 12 };
        self.rows.query_bytes() + 8 + entry(self.probes) + entry(k) + 24
    }

    /// Words of the numbers of queries that probe each list, in all rounds.
    pub(super) fn count_words(&self, way: Way) -> u64 {
        let rounds = if way == Way::Lists { self.short_rounds().len() as u64 } else { 0 };
        rounds * u64::from(self.lists()).next_multiple_of(ALIGNED_WORDS as u64)
    }

    /// Whether cooperative matrices score tiles. That does not change during a search: whoever made the centroids waited for the test.
    fn has_matrices(&self) -> bool {
        screen_tile_coop::is_expected(&self.rows.gpu)
    }

    /// The kernel for a round of lists.
    pub(super) fn list_kernel(&self, queries: u32, probes: u32) -> ListKernel {
        let queries_a_list = u64::from(queries) * u64::from(probes) / u64::from(self.lists());
        let is_shared = queries_a_list >= SHARED && self.has_matrices();
        if is_shared { collect_lists_coop::TILES } else { collect_lists::LISTS }
    }

    /// Bytes of the table of blocks that a batch needs.
    pub(super) fn table_bytes(&self, way: Way, batch: u32) -> u64 {
        if way != Way::Lists {
            return 0;
        }
        let mut most = 0;
        for round in self.short_rounds() {
            let probes = round.end - round.start;
            // A last batch may have fewer queries, and another kernel.
            let lists = collect_lists::LISTS.height;
            let few = (u64::from(self.lists()) * SHARED).div_ceil(probes.into()).min(batch.into()) as u32;
            let height = self.list_kernel(batch, probes).height;
            for segment in &self.tables.segments {
                // The bound holds for whole blocks of queries.
                for (queries, height) in [(batch, height), (few.next_multiple_of(lists), lists)] {
                    most = most.max(table_bytes(segment.most_blocks(queries, probes, height), height));
                }
            }
        }
        most
    }

    /// Plans a screen on integers for this k, with room for at least `least` candidates a query. None if the budget is too small.
    fn screened(&self, way: Way, coarse: Coarse, [k, least]: [u32; 2], queries: u64) -> Option<ProbePlan> {
        let narrowed = self.rows.narrowed.as_ref()?;
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let vector = narrowed.vector_bytes() + TERMS_BYTES;
        // A last block of queries that is not full, and what does not grow with the batch.
        let fixed = u64::from(BLOCK_ROWS) * vector
            + (self.count_words(way) + u64::from(self.lists()) + 4 * ALIGNED_WORDS as u64) * 4;
        let available = self.request.scope().usable().checked_sub(fixed)?;
        let mut capacity = u64::from((16 * k).next_power_of_two().max(least));
        while capacity < CAPACITY[1].into() && queries.min(BATCH) * 2 * capacity * 24 <= available / 8 {
            capacity *= 2;
        }
        // The scores of the coarse step and the candidates share a buffer.
        let scores = coarse.score_bytes(self.centroids);
        let each = self.own_bytes(k)
            + vector
            + u64::from(self.longest_round()) * 4
            + coarse.screen_bytes(self.centroids)
            - scores
            + scores.max(capacity * 12)
            + capacity.max(coarse.entries(self.centroids)) * 12;
        let unit = u64::from(if way == Way::Lists { BLOCK_ROWS } else { coarse.unit() });
        // Blocks are not full: about half of the scores belong to no query.
        let scored = u64::from(self.lists()) + 2 * u64::from(self.probes) * self.rows_a_list();
        let is_on_matrices = self.list_kernel(BATCH as u32, self.longest_round()).kernel.needs_matrices();
        let speed = if way == Way::Lists && is_on_matrices { 10 } else { 1 };
        let quick = submission_flops(self.rows) * speed / (2 * scored * self.rows.layout.stride as u64);
        let mut most = (available / each)
            .min(binding / (capacity * 12))
            .min(binding / (u64::from(self.probes) * 8))
            .min(binding / coarse.widest(self.centroids))
            .min(quick.max(unit))
            .min(BATCH);
        let table = |batch: u64| self.table_bytes(way, batch as u32);
        while most >= unit && (most * each + table(most) > available || table(most) > binding) {
            most -= most.div_ceil(8);
        }
        most -= most % unit;
        // Batches of equal size.
        let batches = queries.div_ceil(most.max(1));
        let batch = queries.div_ceil(batches).next_multiple_of(unit).min(most) as u32;
        let capacity = capacity as u32;
        (batch > 0).then(|| ProbePlan { coarse: coarse.of(batch), k, batch, way, capacity })
    }
}
