//! Runs a search in lists: batch after batch, and again for queries with too many candidates or too few rows.

use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::batch::ProbeBatches;
use crate::engine::lists::probing::needs::Way;
use crate::engine::lists::widening::Widening;
use crate::engine::search::answers::Results;
use crate::engine::search::batches::{BatchWork, run_batches};
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::hybrid::{
    self,
    refining::{Collecting, Collector, put},
};
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
    pub(crate) async fn search(&self, queries: &Vectors<'_>) -> Result<SearchResult> {
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
        queries: &'f Vectors<'f>,
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
                        let (rows, request) = (self.rows, self.request);
                        #[cfg(not(target_arch = "wasm32"))]
                        if let Some(asked) = self.asked {
                            return hybrid::search_some(rows, queries, asked, open, request, state).await;
                        }
                        return search_some(rows, queries, open, request, state).await;
                    }
                    plan => plan?,
                };
                let batches = ProbeBatches::reserve(*self, plan.clone()).await?;
                let mut work = ProbeWork {
                    #[cfg(not(target_arch = "wasm32"))]
                    collector: self.asked.map(|asked| Collector::new(plan.k, asked.usual)),
                    batches,
                    queries,
                    state,
                    overflowed: vec![],
                };
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
    #[cfg(not(target_arch = "wasm32"))]
    /// Reads candidates, where the host computes distances.
    collector: Option<Collector<'a>>,
    queries: &'a Vectors<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
}

/// A batch that the device works on: its results, or candidates that are not refined yet.
enum Probed {
    Found(QueryNumbers, Reading),
    #[cfg(not(target_arch = "wasm32"))]
    Candidates(Collecting),
}

impl BatchWork for ProbeWork<'_> {
    type Pending = Probed;

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Probed> {
        #[cfg(not(target_arch = "wasm32"))]
        let collector = &mut self.collector;
        let (batches, queries, state) = (&self.batches, self.queries, &mut *self.state);
        let count = numbers.len() as u32;
        let mut commands = batches.begin(queries, &numbers, state.profile.as_mut()).await?;
        let way = batches.plan.way;
        match way {
            Way::Rows => batches.encode_all_rows(&mut commands, count)?,
            Way::Queries | Way::Lists => {
                // The device finds lists while the rest is recorded. With few queries it would be idle again before that.
                if count > FEW_QUERIES {
                    commands.submit_and_go_on().await?;
                }
                batches.encode_screened(&mut commands, count)?;
            }
        }
        let buffers = &*batches.buffers;
        let pairs = u64::from(count) * u64::from(batches.probing.probes);
        let coarse_and_scored = [
            (&buffers.coarse_survivors, 0, u64::from(count) * 4),
            (&buffers.probed, 0, if way == Way::Queries { pairs * 8 } else { 0 }),
            (&buffers.list_counts, 0, batches.probing.count_words(&batches.plan) * 4),
        ];
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(collector) = collector {
            let collecting = collector.submit(commands, numbers, &batches.places(count), &coarse_and_scored);
            return Ok(Probed::Candidates(collecting?));
        }
        batches.encode_results(&mut commands, count)?;
        let [counts, _, overflowed] = batches.states(count);
        let count = u64::from(count);
        let results = count * u64::from(batches.plan.k);
        let [coarse, probed, list_counts] = coarse_and_scored;
        let reading = commands.submit_with_readback(&[
            (&buffers.refused, 0, 8),
            (&buffers.selected_keys, 0, results * 4),
            (&buffers.selected_ids, 0, results * 8),
            (&buffers.selected_counts, 0, count * 4),
            (counts.buffer, counts.offset, counts.bytes),
            coarse,
            probed,
            list_counts,
            (overflowed.buffer, overflowed.offset, if way == Way::Rows { 0 } else { count * 4 }),
        ])?;
        Ok(Probed::Found(numbers, reading))
    }

    async fn finish(&mut self, pending: Probed) -> Result<()> {
        let (numbers, reading) = match pending {
            Probed::Found(numbers, reading) => (numbers, reading),
            #[cfg(not(target_arch = "wasm32"))]
            Probed::Candidates(collecting) => return self.refine(collecting).await,
        };
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
            statistics.refined += u64::from(candidates);
            if plan.way == Way::Rows {
                statistics.scored += u64::from(candidates);
            }
            answers.put(number, row)?;
            *answered += 1;
        }
        statistics.scored += tables.scored(&parts[6], &parts[7]);
        request.report(*answered);
        Ok(())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl ProbeWork<'_> {
    /// Answers a batch whose candidates the host compares with its queries.
    async fn refine(&mut self, collecting: Collecting) -> Result<()> {
        let Self { batches, collector, state, overflowed, .. } = self;
        let ProbeBatches { probing: Probing { rows, tables, request, asked, .. }, plan, .. } = &*batches;
        let (Some(asked), Some(collector)) = (asked, collector) else {
            return Err(Error::internal("candidates without the host's rows"));
        };
        let places = batches.places(plan.batch);
        let collected = collector.read(&rows.gpu, &places, collecting).await?;
        let survivors: Vec<u32> = words(&collected.others[0]).collect();
        let has_overflowed =
            |place: usize, count| count > plan.capacity || plan.coarse.overflowed(survivors[place]);
        let (shortlists, too_many) = collected.shortlists(has_overflowed)?;
        let hits = asked.refined(&shortlists, request.limit())?;
        let SearchState { answers, statistics, answered, .. } = &mut **state;
        for (shortlist, row) in shortlists.iter().zip(hits.iter()) {
            put(answers, shortlist.query, row, request)?;
        }
        *answered += shortlists.len();
        statistics.refined += hits.refined;
        statistics.scored += match plan.way {
            Way::Rows => hits.refined,
            _ => tables.scored(&collected.others[1], &collected.others[2]),
        };
        overflowed.extend(too_many.into_iter().map(|(query, _)| query));
        request.report(*answered);
        Ok(())
    }
}
