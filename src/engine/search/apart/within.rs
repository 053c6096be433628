//! All rows within a radius: the device makes those candidates that may be, and the host computes their distances.

use crate::engine::device::queries::{Queries, QueryNumbers};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::{Answers, reported};
use crate::engine::search::apart::rescoring::{Asked, CandidatePlaces, Collector, neighbors};
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::screening::Screening;
pub(super) use crate::engine::search::within::CAPACITY;
use crate::engine::search::within::limit_of;
use crate::error::{Error, Result};
use crate::host::{Hits, HostRequest, SearchLimit};
use crate::kernels::key_of;

pub(super) async fn search(
    integers: &GpuRows,
    queries: &Queries<'_>,
    asked: Asked<'_>,
    (radius, request): (f32, &SearchRequest<'_>),
    plan: Plan,
) -> Result<SearchResult> {
    let count = queries.rows();
    let mut found =
        Found { radius, request, answers: Answers::new(count, 0)?, statistics: Statistics::default() };
    let limit = limit_of(request.metric, radius);
    let mut open = QueryNumbers::Range(0..count);
    let (mut next, mut capacity, mut answered) = (Some(plan), CAPACITY, 0);
    while let Some(plan) = next {
        let Some(screening) = Screening::reserve(integers, request, &plan).await? else {
            return Err(Error::internal("rows on the host have a plan without a screen"));
        };
        let (mut collector, places) =
            (Collector::new(0, asked.usual), CandidatePlaces::of(&screening, false));
        let mut overflowed = vec![];
        for numbers in open.batches(plan.batch as usize) {
            let commands = screening.within(queries, &numbers, |_| key_of(limit), None).await?;
            let collecting = collector.submit(commands, numbers, &places, &[])?;
            let collected = collector.read(&integers.gpu, &places, collecting).await?;
            let (shortlists, too_many) = collected.shortlists(|_, count| count > places.capacity)?;
            let hits = asked.rescored(&shortlists, SearchLimit::Within(limit))?;
            found.put(shortlists.iter().map(|shortlist| shortlist.query), &hits)?;
            capacity = too_many.iter().map(|&(_, needed)| u64::from(needed)).fold(capacity, u64::max);
            overflowed.extend(too_many.into_iter().map(|(query, _)| query));
            answered += shortlists.len();
            request.report(answered);
        }
        found.statistics.scored += open.len() as u64 * integers.end();
        found.statistics.searched_again += overflowed.len() as u64;
        open = QueryNumbers::List(overflowed);
        if open.len() == 0 {
            return found.finished();
        }
        capacity = capacity.next_power_of_two();
        next = Plan::within(integers, open.len() as u64, capacity, request.scope());
    }
    let progress = |done| request.report(answered + done);
    let on_host = HostRequest {
        limit: SearchLimit::Within(limit),
        budget: request.budget,
        allowed: request.allowed.map(|allowed| &allowed.bits),
        progress: Some(&progress),
    };
    let hits = asked.searched(&open, &on_host)?;
    found.statistics.searched_exhaustively += open.len() as u64;
    found.statistics.scored += hits.scored;
    found.put(open.iter(), &hits)?;
    found.finished()
}

/// What was found so far.
struct Found<'a> {
    radius: f32,
    request: &'a SearchRequest<'a>,
    answers: Answers,
    statistics: Statistics,
}

impl Found<'_> {
    /// Sets the answers of queries: those of the rows that are within the radius.
    fn put(&mut self, numbers: impl Iterator<Item = usize>, hits: &Hits) -> Result<()> {
        self.statistics.rescored += hits.rescored;
        for (number, row) in numbers.zip(hits.iter()) {
            let metric = self.request.metric;
            let within = neighbors(row).filter(|hit| reported(metric, hit.distance) < self.radius);
            self.answers.put(number, within)?;
        }
        Ok(())
    }

    fn finished(self) -> Result<SearchResult> {
        Ok(SearchResult { neighbors: self.answers.collected()?, statistics: self.statistics })
    }
}
