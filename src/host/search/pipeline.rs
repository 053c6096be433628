//! Exact search of all rows: batches of queries that fit the scratch memory, each divided among threads.
//!
//! Threads take chunks of queries. Where there are too few of them, each chunk's rows are divided too.

use crate::elements::HostVectors;
use crate::error::Result;
use crate::host::integers::packed::GROUP;
use crate::host::rows::gathered::Gathered;
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::{Batch, by_batch};
use crate::host::search::request::{Hits, HostRequest};
use crate::host::search::schedule::{QUERIES, Schedule, divide, parts_of};
use crate::host::search::scorer::Scorer;
use crate::memory;

/// Where fewer than one row in this many is allowed, and they are not gathered, their distances are computed without scoring any.
const SELECTIVE: usize = 32;

/// For fewer queries than this, rows stay where they are: gathering takes as long as scoring for some of them.
const FEW: usize = 8;

impl HostRows {
    /// Checks the queries and searches all rows.
    pub(crate) fn search(&self, queries: HostVectors<'_>, request: &HostRequest<'_>) -> Result<Hits> {
        let squared = norms::checked("queries", queries)?;
        self.search_checked((queries, &squared), request)
    }

    /// Searches all rows for queries that were checked before, given with their squared norms.
    pub(crate) fn search_checked(
        &self,
        (queries, squared): (HostVectors<'_>, &[f64]),
        request: &HostRequest<'_>,
    ) -> Result<Hits> {
        let eligible = request.eligible(self);
        let mut hits = Hits::with_room(queries.rows())?;
        if eligible == 0 {
            hits.ends.resize(queries.rows(), 0);
            return Ok(hits);
        }
        let filter = request.allowed.filter(|_| queries.rows() >= FEW);
        let gathered = filter.and_then(|allowed| self.gathered(allowed, eligible, request.budget));
        let taken = gathered.as_ref().map_or(0, |gathered| gathered.bytes(self.dim()));
        let schedule = Schedule::of_free_memory(request.budget - taken, |budget| {
            self.schedule(queries.rows(), &HostRequest { budget, ..*request }, eligible)
        })?;
        by_batch((queries, squared), &schedule, request, |batch| {
            self.search_batch(batch, (request, gathered.as_ref()), (eligible, schedule), &mut hits)
        })?;
        Ok(hits)
    }

    fn search_batch(
        &self,
        batch: Batch<'_>,
        (request, gathered): (&HostRequest<'_>, Option<&Gathered>),
        (eligible, schedule): (usize, Schedule),
        hits: &mut Hits,
    ) -> Result<()> {
        let count = batch.vectors.rows();
        let is_selective = gathered.is_none() && eligible * SELECTIVE < self.end();
        let selective = request.allowed.filter(|_| is_selective);
        let rows = gathered.map_or(self.end(), |gathered| gathered.slots.len());
        let groups = rows.div_ceil(GROUP);
        let parts = match selective {
            Some(_) => 1,
            None => parts_of(count.div_ceil(QUERIES), groups, schedule.threads),
        };
        let parts = schedule.limit_parts(parts, count);
        let each = groups.div_ceil(parts).next_multiple_of(2);
        let scored = count * if selective.is_some() { eligible } else { rows };
        let task = (count, scored.saturating_mul(self.dim()));
        let by_query = divide(task, [QUERIES, parts], schedule.threads, |chunk, part, stop| {
            let queries = batch.slice(chunk.clone());
            let mut candidates = request.candidates(chunk.len(), eligible)?;
            match selective {
                Some(allowed) => self.keep_all(queries, allowed, stop, &mut candidates)?,
                None => {
                    let mut scorer = Scorer::new(self, gathered, queries, stop)?;
                    let chosen = scorer.choose(memory::collect(0..chunk.len() as u32)?)?;
                    let groups = part * each..groups.min((part + 1) * each);
                    self.scan(
                        &mut scorer,
                        &chosen,
                        (groups, schedule.groups),
                        (request.allowed, gathered),
                        &mut candidates,
                    )?;
                }
            }
            Ok(candidates)
        })?;
        hits.scored += scored as u64;
        self.finish(batch, by_query, hits)
    }
}
