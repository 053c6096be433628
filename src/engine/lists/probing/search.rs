//! Runs a search in lists: batch after batch, and again for queries with too many candidates or too few rows.

use std::mem::take;

use crate::engine::device::queries::{Queries, QueryNumbers};
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::batch::ProbeBatches;
use crate::engine::lists::probing::needs::Way;
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::lists::widening::Widening;
use crate::engine::search::answers::Results;
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::pipeline::{SearchState, search_some};
use crate::engine::search::request::SearchResult;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::gpu::{Reading, words};

/// The commands of up to this many queries are submitted at once.
const FEW_QUERIES: u32 = 8;

impl Probing<'_> {
    /// Finds the nearest rows in the nearest lists of each query. Under a filter, and where answers are to be full, a query that finds fewer
    /// than k rows probes twice as many lists, until it has k rows or has probed all lists.
    pub(crate) async fn search(&self, queries: &Queries<'_>) -> Result<SearchResult> {
        let count = queries.rows();
        let mut state = SearchState::new(self.rows, count, self.request)?;
        let found = self.request.scope().found(self.rows);
        let wanted = (self.request.k as u64).min(found) as usize;
        let mut open = QueryNumbers::Range(0..count);
        if wanted == 0 {
            queries.check_values("queries")?;
            open = QueryNumbers::Range(0..0);
        }
        let wanted = self.request.widens.then_some(wanted);
        let mut widening = Widening { probes: self.probes, lists: self.lists(), wanted };
        loop {
            let wider = Self { probes: widening.probes, ..*self };
            wider.search_some(queries, open, &mut state).await?;
            let Some(short) = widening.short(count, |number| state.answers.len_of(number)) else { break };
            state.answered -= short.len();
            open = QueryNumbers::List(short);
        }
        state.finish(self.rows).await
    }

    /// Answers some of the queries. Those whose candidates overflow are searched again: with longer lists of candidates, then with all
    /// rows of their lists as candidates.
    fn search_some<'f>(
        &'f self,
        queries: &'f Queries<'f>,
        some: QueryNumbers,
        state: &'f mut SearchState,
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let mut open = some;
            let mut before = None;
            while open.len() > 0 {
                let plan = match self.plan(open.len() as u64, before.as_ref()) {
                    // If there is no memory for the candidates of a search in all lists, it is done as in `Flat`.
                    Err(_) if self.probes >= self.lists() => {
                        return search_some(self.rows, queries, open, self.request, state).await;
                    }
                    plan => plan?,
                };
                let batches = ProbeBatches::reserve(*self, plan.clone()).await?;
                let mut work = ProbeWork { batches, queries, state, overflowed: vec![] };
                run_batches(open.batches(plan.batch as usize), &mut work).await?;
                let overflowed = work.overflowed;
                // The last plan holds all candidates. Without this error, a fault of the library would become an endless loop.
                let is_last = before.is_some() && plan.way == Way::Rows;
                if let (true, Some(query)) = (is_last, overflowed.first()) {
                    let message = format!("query {query} has more candidates than its lists have rows");
                    return Err(Error::internal(message));
                }
                state.statistics.searched_again += overflowed.len() as u64;
                open = QueryNumbers::List(overflowed);
                before = Some(plan);
            }
            Ok(())
        })
    }
}

/// The search over batches.
struct ProbeWork<'a> {
    batches: ProbeBatches<'a>,
    queries: &'a Queries<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
}

impl BatchWork for ProbeWork<'_> {
    type Pending = (QueryNumbers, Reading);

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<(QueryNumbers, Reading)> {
        let Self { batches, queries, state, .. } = self;
        let count = numbers.len() as u32;
        let mut commands = batches.begin(queries, &numbers, state.profile.as_mut()).await?;
        let way = batches.plan.way;
        match way {
            Way::Rows => batches.encode_all_rows(&mut commands, count)?,
            Way::Queries | Way::Lists => {
                // The device finds lists while the rest is recorded. With few queries it would be idle again before that.
                if count > FEW_QUERIES {
                    commands = commands.submit_and_go_on().await?;
                }
                batches.encode_screened(&mut commands, count)?;
            }
        }
        batches.encode_results(&mut commands, count)?;
        let buffers = &*batches.buffers;
        let [counts, _, overflowed] = batches.states(count);
        let count = u64::from(count);
        let results = count * u64::from(batches.plan.k);
        let pairs = count * u64::from(batches.probing.probes);
        let reading = commands.submit_with_readback(&[
            (&buffers.refused, 0, 8),
            (&buffers.selected_keys, 0, results * 4),
            (&buffers.selected_ids, 0, results * 8),
            (&buffers.selected_counts, 0, count * 4),
            (counts.buffer, counts.offset, counts.bytes),
            (&buffers.coarse_survivors, 0, count * 4),
            (&buffers.probed, 0, if way == Way::Queries { pairs * 8 } else { 0 }),
            (&buffers.list_counts, 0, batches.probing.count_words(&batches.plan) * 4),
            (overflowed.buffer, overflowed.offset, if way == Way::Rows { 0 } else { count * 4 }),
        ])?;
        Ok((numbers, reading))
    }

    async fn finish(&mut self, (numbers, reading): (QueryNumbers, Reading)) -> Result<()> {
        let ProbeBatches { probing: Probing { rows, tables, request, .. }, plan, .. } = &self.batches;
        let SearchState { answers, statistics, answered, .. } = &mut *self.state;
        let mut parts = reading.wait(&rows.gpu).await?;
        numbers.check(&parts[0])?;
        let found = Results::new([plan.k as usize; 2], [1, 2, 3].map(|part| take(&mut parts[part])));
        let candidates = words::<u32>(&parts[4]).zip(words::<u32>(&parts[5]));
        let mut flags = words::<u32>(&parts[8]);
        for ((number, row), (candidates, coarse)) in numbers.iter().zip(found.rows()).zip(candidates) {
            let is_flagged = flags.next().is_some_and(|flag| flag != 0);
            if is_flagged || candidates > plan.capacity || plan.coarse.overflowed(coarse) {
                self.overflowed.push(number);
                continue;
            }
            statistics.rescored += u64::from(candidates);
            if plan.way == Way::Rows {
                statistics.scored += u64::from(candidates);
            }
            answers.put(number, row)?;
            *answered += 1;
        }
        let size_of = |list: u64| tables.sizes.get(list as usize).copied().map_or(0, u64::from);
        statistics.scored += words::<u64>(&parts[6]).map(size_of).sum::<u64>();
        // The counts of each round.
        let lists = tables.sizes.len();
        for (place, queries) in words::<u32>(&parts[7]).enumerate() {
            statistics.scored +=
                u64::from(queries) * size_of((place % lists.next_multiple_of(ALIGNED_WORDS)) as u64);
        }
        request.report(*answered);
        Ok(())
    }
}
