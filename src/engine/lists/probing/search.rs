//! Runs a search in lists: batch after batch, and again for queries with too many candidates or too few rows.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::batch::ProbeBatches;
use crate::engine::lists::probing::needs::Way;
use crate::engine::lists::widening::Widening;
use crate::engine::search::batch::Batch;
use crate::engine::search::batches::{Again, CandidateSource, Pass};
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::hybrid;
use crate::engine::search::nearest::{SearchState, search_some};
use crate::engine::search::request::SearchResult;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::gpu::{Commands, Profile, ReadRange, words};

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
        state: &'f mut SearchState<'_>,
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
                            return hybrid::search_some(rows, (queries, asked), open, request, state).await;
                        }
                        return search_some(rows, queries, open, request, state).await;
                    }
                    plan => plan?,
                };
                let batches = ProbeBatches::reserve(*self, plan.clone()).await?;
                let pass = Pass::new(batches, queries, state);
                #[cfg(not(target_arch = "wasm32"))]
                let pass = match self.asked {
                    Some(asked) => pass.on_host(asked, false, None),
                    None => pass,
                };
                let Again { queries: again, .. } = pass.run(&open, plan.batch).await?;
                // The last plan holds all candidates. Without this error, a fault of the library would become an endless loop.
                let is_last = before.is_some() && plan.way == Way::Rows;
                if let (true, Some(query)) = (is_last, again.first()) {
                    let message = format!("query {query} has more candidates than its lists have rows");
                    return Err(Error::internal(message));
                }
                open = QueryNumbers::List(again);
                before = Some(plan);
            }
            Ok(())
        })
    }
}

impl CandidateSource for ProbeBatches<'_> {
    fn batch(&self) -> &Batch<'_> {
        &self.batch
    }

    async fn record<'c>(
        &'c self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        _thresholds: Option<&[u32]>,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let count = numbers.len() as u32;
        let mut commands = self.begin(queries, numbers, profile).await?;
        match self.plan.way {
            Way::Rows => self.encode_all_rows(&mut commands, count)?,
            Way::Queries | Way::Lists => {
                // The device finds lists while the rest is recorded. With few queries it would be idle again before that.
                if count > FEW_QUERIES {
                    commands = commands.submit_and_go_on().await?;
                }
                self.encode_screened(&mut commands, count)?;
            }
        }
        Ok(commands)
    }

    fn has_flags(&self) -> bool {
        self.plan.way != Way::Rows
    }

    /// What the coarse step found, and the lists of each query, or how many queries probed each list.
    fn others(&self, count: u32) -> Vec<ReadRange<'_>> {
        let (buffers, count) = (&*self.batch.buffers, u64::from(count));
        let probed =
            if self.plan.way == Way::Queries { count * u64::from(self.probing.probes) * 8 } else { 0 };
        let list_counts = self.probing.count_words(&self.plan) * 4;
        vec![
            (&buffers.coarse_survivors, 0, count * 4),
            (&buffers.probed, 0, probed),
            (&buffers.list_counts, 0, list_counts),
        ]
    }

    fn is_incomplete(&self, others: &[Vec<u8>], place: usize) -> bool {
        let survivors = others[0].get(place * 4..).and_then(|bytes| words::<u32>(bytes).next());
        survivors.is_some_and(|survivors| self.plan.coarse.overflowed(survivors))
    }

    fn scored(&self, _queries: u64, refined: u64, others: &[Vec<u8>]) -> u64 {
        match self.plan.way {
            Way::Rows => refined,
            _ => self.probing.tables.scored(&others[1], &others[2]),
        }
    }
}
