//! Computes what a plan of a search in lists needs: the sizes of its scratch buffers, and the kernel of each round.

use std::ops::Range;

use crate::engine::lists::coarse::Coarse;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::screens::int8::codes::TERMS_BYTES;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::batch::{Candidate, Room, SearchBuffers};
use crate::kernels::collect_lists::ListKernel;
use crate::kernels::{BLOCK_ROWS, collect_lists, select_k, table_bytes};

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
#[derive(Debug, Clone)]
pub(crate) struct ProbePlan {
    /// The coarse step, for a part of a batch at a time.
    pub(crate) coarse: Coarse,
    pub(crate) k: u32,
    /// Queries at a time.
    pub(crate) batch: u32,
    pub(crate) way: Way,
    /// Candidates that a query's list holds. If all rows are candidates, that is all that it can have.
    pub(crate) capacity: u32,
    /// The rounds in which the lists of a query are screened, nearest first. Each lowers the threshold for the next.
    pub(crate) rounds: Vec<Range<u32>>,
}

/// Queries whose nearest centroids are found while the next ones are on their way to the device: a multiple of what tiles need.
const COARSE_BATCH: u64 = 2560;

/// Tiles on matrices are faster than integer products where each list has at least this many queries.
const SHARED: u64 = 12;

impl ProbePlan {
    /// The plan for batches of this many queries.
    pub(super) fn of(&self, batch: u64) -> Self {
        let coarse = self.coarse.of(batch.min(COARSE_BATCH) as u32);
        Self { coarse, batch: batch as u32, ..self.clone() }
    }

    pub(super) fn longest_round(&self) -> u32 {
        self.rounds.iter().map(|round| round.end - round.start).max().unwrap_or(0)
    }

    /// Batches are a multiple of this many queries.
    pub(super) fn unit(&self) -> u64 {
        if self.way == Way::Lists { BLOCK_ROWS.into() } else { self.coarse.unit().into() }
    }
}

impl Probing<'_> {
    /// The room that batches of a plan need.
    pub(super) fn room(&self, plan: &ProbePlan) -> Room {
        let queries = u64::from(plan.batch);
        let padded = queries.next_multiple_of(plan.coarse.unit().into());
        let candidate = Candidate { bytes: if plan.way == Way::Rows { 4 } else { 12 }, words: 1 };
        Room { queries, padded, k: plan.k, capacity: plan.capacity, candidate }
    }

    /// The bytes of the scratch buffers that a plan needs.
    pub(super) fn buffers(&self, plan: &ProbePlan) -> SearchBuffers<u64> {
        let room = self.room(plan);
        let (count, pairs) = (room.queries, room.queries * u64::from(self.probes));
        let coarse = plan.coarse.bytes(self.centroids);
        let all = SearchBuffers::of(self.rows, self.request, room);
        let if_by_list = |bytes: u64| if plan.way == Way::Lists { bytes } else { 0 };
        let if_bits = |bytes: u64| if self.of_bits() { u64::from(plan.coarse.batch) * bytes } else { 0 };
        let spare = if self.probes > select_k::SORTED_MAX { pairs } else { 0 };
        let screened = self.rows.quantized.as_ref().filter(|_| plan.way != Way::Rows);
        let terms = count.next_multiple_of(BLOCK_ROWS.into()) * TERMS_BYTES;
        SearchBuffers {
            quantized: screened.map_or(0, |quantized| quantized.plane_bytes(count) + terms),
            // One buffer for counts, thresholds and flags.
            counts: 3 * count.next_multiple_of(ALIGNED_WORDS as u64) * 4,
            thresholds: 0,
            overflowed: 0,
            // The coarse step comes first, in the same places.
            candidates: all.candidates.max(coarse.scores),
            keys: all.keys.max(coarse.keys),
            ids: all.ids.max(coarse.ids),
            spare_keys: all.spare_keys.max(spare * 4),
            spare_ids: all.spare_ids.max(spare * 8),
            coarse_queries: if_bits(self.centroids.layout().row_bytes()),
            coarse_norms: if_bits(8),
            coarse_quantized: coarse.quantized,
            coarse_terms: coarse.terms,
            coarse_candidates: coarse.candidates,
            coarse_survivors: count * 4,
            probed_keys: pairs * 4,
            probed: pairs * 8,
            probed_counts: count * 4,
            list_counts: self.count_words(plan) * 4,
            ranks: if_by_list(count * u64::from(plan.longest_round()) * 4),
            starts: if_by_list((u64::from(self.lists()) + 1) * 4),
            blocks: self.table_bytes(plan),
            ..all
        }
    }

    /// Scratch bytes of a plan: all, and of the largest buffer.
    pub(super) fn needs(&self, plan: &ProbePlan) -> [u64; 2] {
        let bytes = || self.buffers(plan).requests().map(|request| request.bytes);
        [bytes().sum(), bytes().max().unwrap_or(0)]
    }

    /// Words of the numbers of queries that probe each list, in all rounds.
    pub(super) fn count_words(&self, plan: &ProbePlan) -> u64 {
        let rounds = if plan.way == Way::Lists { plan.rounds.len() as u64 } else { 0 };
        rounds * u64::from(self.lists()).next_multiple_of(ALIGNED_WORDS as u64)
    }

    /// The kernel for a round of lists. It does not change during a search: whoever made the centroids waited for the test of matrices.
    pub(super) fn list_kernel(&self, queries: u32, probes: u32) -> ListKernel {
        let queries_a_list = u64::from(queries) * u64::from(probes) / u64::from(self.lists());
        let shared = Tiles::expected(&self.rows.gpu).of_shared_lists(queries_a_list as u32);
        shared.filter(|_| queries_a_list >= SHARED).unwrap_or(collect_lists::LISTS)
    }

    /// The heights of blocks that [`list_kernel`](Self::list_kernel) takes, each with the queries a list that are too many for it.
    fn list_heights(&self) -> Vec<(u32, u64)> {
        let shared = Tiles::expected(&self.rows.gpu).heights();
        let heights = [collect_lists::LISTS.height].into_iter().chain(shared.iter().copied());
        let least = shared.iter().take(1).map(|_| SHARED);
        let below = least.chain(shared.iter().map(|&height| u64::from(height) + 1));
        let mut heights: Vec<_> = heights.zip(below.chain([u64::MAX])).collect();
        heights.last_mut().into_iter().for_each(|(_, below)| *below = u64::MAX);
        heights
    }

    /// Bytes of the table of blocks that batches of a plan need.
    pub(super) fn table_bytes(&self, plan: &ProbePlan) -> u64 {
        if plan.way != Way::Lists {
            return 0;
        }
        let batch = plan.batch;
        let mut most = 0;
        for round in &plan.rounds {
            let probes = round.end - round.start;
            // A last batch may have fewer queries, and another kernel: of each the most queries, in whole blocks.
            for (height, below) in self.list_heights() {
                let queries = u64::from(self.lists()).saturating_mul(below).div_ceil(probes.into());
                let queries = queries.min(batch.into()).next_multiple_of(height.into()) as u32;
                for segment in &self.tables.segments {
                    most = most.max(table_bytes(segment.most_blocks(queries, probes, height), height));
                }
            }
        }
        most
    }
}
