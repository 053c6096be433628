//! All rows within a radius: the device makes those candidates that may be, and the host computes their distances.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::{Answers, reported};
use crate::engine::search::apart::Asked;
use crate::engine::search::apart::rescoring::{Collector, Room};
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::screening::Screening;
pub(super) use crate::engine::search::within::CAPACITY;
use crate::engine::search::within::limit_of;
use crate::error::{Error, Result};
use crate::host::{Hits, HostRequest, HostRows, SearchLimit};
use crate::interrupt;
use crate::kernels::key_of;
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::Neighbor;

pub(super) async fn within(
    rows: &HostRows,
    integers: &GpuRows,
    asked: Asked<'_>,
    (radius, request): (f32, &SearchRequest<'_>),
    plan: Plan,
) -> Result<SearchResult> {
    let count = asked.on_host.rows();
    let mut found =
        Found { radius, request, answers: Answers::new(count, 0)?, statistics: Statistics::default() };
    let limit = limit_of(request.metric, radius);
    let mut open = QueryNumbers::Range(0..count);
    let (mut next, mut capacity, mut answered) = (Some(plan), CAPACITY, 0);
    while let Some(plan) = next {
        let Some(screening) = Screening::reserve(integers, request, &plan).await? else {
            return Err(Error::internal("rows on the host have a plan without a screen"));
        };
        let mut collector = Collector::new(Room::of(1));
        let mut overflowed = vec![];
        for numbers in open.batches(plan.batch as usize) {
            let commands = screening.within(asked.queries, &numbers, key_of(limit)).await?;
            let candidates = collector.submit(&screening, commands, numbers, false)?;
            let read = collector.read(&screening, candidates).await?;
            interrupt::check()?;
            let (shortlists, too_many) = read.shortlists(screening.capacity)?;
            let queries = (asked.on_host, asked.squared);
            let hits = rows.rescored(queries, &shortlists, SearchLimit::Within(limit))?;
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
    // The scratch memory of the device is free again: the host's threads may be in searches that wait for it.
    let mut some = memory::with_room(open.len())?;
    some.extend(open.iter());
    let squared = memory::collect(some.iter().map(|&number| asked.squared[number]))?;
    let queries = asked.on_host.chosen(&some)?;
    let progress = |done| request.report(answered + done);
    let host_request = HostRequest {
        limit: SearchLimit::Within(limit),
        budget: request.budget,
        allowed: request.allowed.map(|allowed| &allowed.bits),
        progress: Some(&progress),
    };
    let hits = rows.search_checked((Vectors::from(&queries).on_host()?, &squared), &host_request)?;
    found.statistics.searched_exhaustively += some.len() as u64;
    found.statistics.scored += hits.scored;
    found.put(some.into_iter(), &hits)?;
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
            let computed = row.iter().map(|&(key, id)| (value_of(key), id));
            let within =
                computed.filter(|&(computed, _)| reported(self.request.metric, computed) < self.radius);
            self.answers.put(number, within.map(|(distance, id)| Neighbor { id, distance }))?;
        }
        Ok(())
    }

    fn finished(self) -> Result<SearchResult> {
        Ok(SearchResult { neighbors: self.answers.collected()?, statistics: self.statistics })
    }
}
