//! Plans a search in lists: which way it takes, in which rounds, and how large batches are, under the budget.

use std::ops::Range;

use crate::engine::lists::coarse::Coarse;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::needs::{ProbePlan, Way};
use crate::engine::search::chunks::submission_flops;
use crate::error::{Error, Result};
use crate::gpu::budget_for;
use crate::kernels::{BLOCK_ROWS, probe_thresholds};

/// A search of at most this many distances computes all of them, which takes less time than the dispatches of a screen.
const SMALL: u64 = 4096;

/// Grouping queries by list pays where a list has more queries than this on average: it is then read once for all of them.
const FEW_A_LIST: u64 = 1;

/// The largest batch. Tiles of lists are fuller the more queries there are.
const BATCH: u64 = 16_384;

/// Candidates that a query's list holds: at least, and at most where there are few queries.
const CAPACITY: [u32; 2] = [1280, 16_384];

/// The largest k of a screen: as many rows as can give a threshold with some to spare.
const K_MAX: u32 = probe_thresholds::UPPERS / 2;

/// Where the first rounds of a query's lists end, nearest first. A round that is far from its threshold may keep most of its rows, so
/// rounds begin small.
pub(super) const NEAR: [u32; 2] = [4, 16];

/// The fewest lists of a later round. Fewer that remain join the last one.
const LEAST_ROUND: u32 = 16;

/// A later round has about this many pairs of a query and a list: the table of blocks has room for them, and tiles are nearly full.
const PAIRS: u64 = 1 << 20;

/// A round may keep this many rows for each that is among the k nearest of the rounds before: intervals overlap.
const KEPT: u64 = 4;

/// Rows of the nearest lists that give the first threshold: at least.
const FIRST_ROWS: u32 = 64;

/// Lists that they are taken from. The nearest alone would have more of the nearest rows for most queries, and none for some.
const FIRST_LISTS: u32 = 4;

impl ProbePlan {
    /// Whether another plan may find room for the candidates of a screen.
    fn can_be_longer(&self) -> bool {
        self.capacity < CAPACITY[1] || self.coarse.is_screened()
    }
}

impl Probing<'_> {
    /// The plan for this many queries. With another plan it is for queries whose candidates overflowed under that one: first with longer
    /// lists of candidates, then with all rows.
    pub(super) fn plan(&self, queries: u64, before: Option<&ProbePlan>) -> Result<ProbePlan> {
        let k = (self.request.k as u64).min(self.rows.len()).max(1) as u32;
        let coarse = Coarse::new(self.centroids, self.probes, queries);
        let coarse = if before.is_some() { coarse.exhaustive() } else { coarse };
        let pairs = queries * u64::from(self.probes);
        let is_small = pairs * self.rows_a_list() <= SMALL;
        let is_last = before.is_some_and(|plan| plan.way == Way::Rows || !plan.can_be_longer());
        // The screens of lists multiply integers.
        if self.rows.quantized.is_some() && !self.of_bits() && !is_last && !is_small && k <= K_MAX {
            let is_many = pairs > FEW_A_LIST * u64::from(self.lists());
            let way = if is_many { Way::Lists } else { Way::Queries };
            let least = CAPACITY[usize::from(before.is_some())];
            // A budget that is too small for a tile of queries may suffice for one query.
            let ways = [(way, coarse), (Way::Queries, coarse.exhaustive())];
            let mut plans = ways.into_iter().filter_map(|(way, coarse)| {
                self.fit(&self.screened(way, coarse, [k, least], queries), queries)
            });
            if let Some(plan) = plans.next() {
                return Ok(plan);
            }
        }
        let capacity = self.tables.most_rows(self.probes).max(1) as u32;
        let all = ProbePlan { coarse, k, batch: 0, way: Way::Rows, capacity, rounds: vec![] };
        let one = ProbePlan { coarse: coarse.exhaustive(), ..all.clone() };
        if let Some(plan) = self.fit(&all, queries).or_else(|| self.fit(&one, queries)) {
            return Ok(plan);
        }
        let purpose = format!("a search of {} of {} lists", self.probes, self.lists());
        let [total, widest] = self.needs(&one.of(1));
        self.rows.gpu.check_binding(&purpose, widest)?;
        Err(Error::Budget { purpose, needed: budget_for(total), budget: self.request.budget })
    }

    /// A plan of a screen on integers for this k, with room for at least `least` candidates a query.
    fn screened(&self, way: Way, coarse: Coarse, [k, least]: [u32; 2], queries: u64) -> ProbePlan {
        let available = self.request.scope().usable();
        let unit = if way == Way::Lists { u64::from(BLOCK_ROWS) } else { 1 };
        let least_batch = queries.min(BATCH).next_multiple_of(unit);
        let mut capacity = (16 * k).next_power_of_two().max(least);
        while capacity < CAPACITY[1] && least_batch * 2 * u64::from(capacity) * 24 <= available / 3 {
            capacity = (capacity * 2).min(CAPACITY[1]);
        }
        ProbePlan {
            coarse,
            k,
            batch: 0,
            way,
            capacity,
            rounds: self.rounds(way, [capacity, k], queries.min(BATCH)),
        }
    }

    /// The plan with batches as large as the budget and the adapter permit, all of about the same size. None if no batch is small enough.
    fn fit(&self, plan: &ProbePlan, queries: u64) -> Option<ProbePlan> {
        let (unit, available) =
            (plan.unit(), self.request.scope().usable() + self.request.scope().bits_bytes());
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let most = self.quick(plan).max(unit).min(BATCH).min(u64::from(u32::MAX) / u64::from(plan.capacity));
        let mut most = most.min(queries.next_multiple_of(unit)) / unit * unit;
        while most > 0 {
            let [total, widest] = self.needs(&plan.of(most));
            if total <= available && widest <= binding {
                let batch = queries.div_ceil(queries.div_ceil(most)).next_multiple_of(unit);
                return Some(plan.of(batch.min(most)));
            }
            most = (most - most.div_ceil(8)) / unit * unit;
        }
        None
    }

    /// Queries whose search does not keep the device busy for too long.
    fn quick(&self, plan: &ProbePlan) -> u64 {
        let rows = match plan.way {
            // `refine` reaches about a tenth of a tile's speed.
            Way::Rows => 10 * (u64::from(plan.capacity) + plan.coarse.entries(self.centroids)),
            // Blocks are not full: about half of the scores belong to no query.
            _ => u64::from(self.lists()) + 2 * u64::from(self.probes) * self.rows_a_list(),
        };
        let is_on_matrices = self.list_kernel(BATCH as u32, plan.longest_round()).kernel.needs_matrices();
        let speed = if plan.way == Way::Lists && is_on_matrices { 10 } else { 1 };
        submission_flops(self.rows.gpu.adapter.kind) * speed / (2 * rows * self.rows.layout.stride as u64)
    }

    /// The rounds of a screen of this many queries whose lists of candidates have this capacity.
    fn rounds(&self, way: Way, [capacity, k]: [u32; 2], queries: u64) -> Vec<Range<u32>> {
        let is_listed = |end: u32| u64::from(end) * self.rows_a_list() <= capacity.into();
        // A round needs no others before it if a list of candidates holds all of its rows. One that is as long as lists get has room for
        // all rows that pass a first threshold.
        if is_listed(self.probes) || (way == Way::Queries && capacity >= CAPACITY[1]) {
            return std::iter::once(0..self.probes).collect();
        }
        let longer = |end: &u32| {
            let kept = u64::from(capacity) * u64::from(*end) / (KEPT * u64::from(k));
            Some(end + kept.min(PAIRS / queries).max(LEAST_ROUND.into()).min(self.lists().into()) as u32)
        };
        let later = std::iter::successors(Some(NEAR[1]), longer);
        let ends = NEAR.into_iter().take(1).chain(later).skip(is_listed(NEAR[1]).into());
        // A last round of few lists is not worth its dispatches.
        let ends = ends.take_while(|end| end + (end / 4).min(LEAST_ROUND) < self.probes);
        let ends: Vec<u32> = ends.chain([self.probes]).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, &end)| start..end).collect()
    }

    /// The rows that give first thresholds for this k: how many are enough, the lists that are looked at, and turns of four pages of them.
    pub(super) fn first_rows(&self, k: u32) -> [u32; 3] {
        let wanted = (4 * k).clamp(FIRST_ROWS, probe_thresholds::UPPERS);
        // A power of two.
        let probes = 1 << self.probes.min(FIRST_LISTS).ilog2();
        // Four times as many as if all places of the pages had a row that is allowed: a filter may leave few.
        [wanted, probes, wanted.div_ceil(BLOCK_ROWS) * 4]
    }

    /// The mean number of rows of a list.
    fn rows_a_list(&self) -> u64 {
        self.rows.len().div_ceil(self.lists().into())
    }
}
