//! The one pipeline: rows are nominated, or all taken; rescored; selected.

use std::collections::VecDeque;

use crate::engine::device::queries::{Numbers, Queries};
use crate::engine::rows::allowed::{Allowed, Room};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::exhaustive::exhaustive;
use crate::engine::search::nominate::Screen;
use crate::engine::search::plan::{Plan, Route};
use crate::error::Result;
use crate::gpu::{Profile, StageTime};
use crate::kernels::value_of;
use crate::metric::Metric;
use crate::neighbors::Neighbors;

/// What a search is asked for.
pub(crate) struct SearchRequest<'a> {
    pub(crate) metric: Metric,
    pub(crate) k: usize,
    pub(crate) budget: u64,
    /// The rows of a filter; none for all.
    pub(crate) allowed: Option<&'a Allowed>,
    /// Times the stages on the device.
    pub(crate) profile: bool,
    /// Called with the number of queries that are answered.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

impl SearchRequest<'_> {
    pub(crate) fn room(&self) -> Room<'_> {
        Room { budget: self.budget, allowed: self.allowed }
    }

    pub(crate) fn report(&self, answered: usize) {
        if let Some(progress) = self.progress {
            progress(answered);
        }
    }
}

/// Batches that are sent before the first of them is read. They share their scratch buffers.
const BATCHES_IN_FLIGHT: usize = 2;

/// What a search did.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Rows of which a score or a distance was computed, over all queries: every row of the index, unless a filter allows so few
    /// that only theirs are, and of an [`Ivf`](crate::Ivf) those of the lists that were probed. Gaps that removed rows left count in a
    /// `Flat`, and rows of a query that was searched again count again.
    pub scored: u64,
    /// Rows that screens could not exclude, so that their distance was computed as it is reported: over all queries.
    pub rescored: u64,
    /// Queries whose list of such rows overflowed, and which were searched another way: first without narrowing, then
    /// exhaustively; in an `Ivf` by all rows of their lists. A query that this happened to twice counts twice.
    pub searched_again: u64,
    /// Those of them that were searched exhaustively.
    pub searched_exhaustively: u64,
    /// Whether the host answered for a GPU: see [`FlatBuilder::keep_host_copy`](crate::FlatBuilder::keep_host_copy) and
    /// [`IvfBuilder::keep_host_copy`](crate::IvfBuilder::keep_host_copy).
    pub on_host: bool,
    /// Device time of each stage, when asked for and where the adapter has timestamps.
    pub stages: Vec<StageTime>,
}

/// An answer and how it came about.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) neighbors: Neighbors,
    pub(crate) statistics: Statistics,
}

pub(crate) async fn search(
    rows: &GpuRows,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    let count = queries.rows();
    let mut profile = if request.profile { Profile::new(&rows.gpu) } else { None };
    let mut statistics = Statistics::default();
    let mut answers = Answers::new(count);
    let into = (&mut answers, &mut statistics, profile.as_mut());
    search_some(rows, queries, Numbers::Range(0..count), request, into).await?;
    if let Some(profile) = profile {
        statistics.stages = profile.times(&rows.gpu).await?;
    }
    Ok(Found { neighbors: answers.collected(), statistics })
}

/// Answers some queries: a row of all answers each.
pub(crate) async fn search_some(
    rows: &GpuRows,
    queries: &Queries<'_>,
    some: Numbers,
    request: &SearchRequest<'_>,
    (answers, statistics, mut profile): (&mut Answers, &mut Statistics, Option<&mut Profile>),
) -> Result<()> {
    let mut plan = Plan::new(rows, some.len() as u64, request.k as u64, request.room())?;
    if request.room().found(rows) == 0 {
        return queries.check_values("queries");
    }
    let mut open = some;
    let mut answered = 0;
    loop {
        let mut overflowed = vec![];
        let mut batches = open.batches(plan.batch as usize).into_iter();
        if let Some(screen) = Screen::reserve(rows, request, &plan).await? {
            // The device works on one batch while the host prepares the next and reads the last.
            let mut pending = VecDeque::new();
            loop {
                while pending.len() < BATCHES_IN_FLIGHT
                    && let Some(numbers) = batches.next()
                {
                    pending.push_back(screen.submit(queries, numbers, profile.as_deref_mut()).await?);
                }
                let Some(batch) = pending.pop_front() else { break };
                let found = screen.finish(batch).await?;
                statistics.rescored += found.rescored;
                statistics.scored += found.results.len() as u64 * rows.end();
                answered += found.results.len() - found.overflowed.len();
                for (number, row) in found.numbers.iter().zip(found.results.rows()) {
                    answers.put(number, row);
                }
                overflowed.extend(found.overflowed);
                request.report(answered);
            }
        } else {
            for numbers in batches {
                let profile = profile.as_deref_mut();
                let found = exhaustive(rows, queries, &numbers, request, &plan, profile).await?;
                answered += found.len();
                statistics.scored += found.len() as u64 * request.room().looked_at(rows);
                for (number, row) in numbers.iter().zip(found.rows()) {
                    answers.put(number, row);
                }
                request.report(answered);
            }
        }
        // By now the scratch of this pass is given back, so that the next never waits while it holds some.
        if overflowed.is_empty() {
            break;
        }
        plan = plan.again(rows, overflowed.len() as u64, request.room())?;
        statistics.searched_again += overflowed.len() as u64;
        if let Route::Exhaustive { .. } = plan.route {
            statistics.searched_exhaustively += overflowed.len() as u64;
        }
        open = Numbers::List(overflowed);
    }
    Ok(())
}

/// The distance that a key stands for: L2 is computed as its square.
pub(crate) fn distance_of(metric: Metric, key: u32) -> f32 {
    match metric {
        Metric::L2 => value_of(key).sqrt(),
        _ => value_of(key),
    }
}
