//! Exact search of all rows: batches of queries that fit the scratch memory, each divided among threads.
//!
//! Threads take chunks of queries. Where there are too few of them, each chunk's rows are divided too.

use std::ops::Range;

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::error::{Error, Result};
use crate::host::integers::packed::GROUP;
use crate::host::rows::gathered::Gathered;
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::{Batch, by_batch};
use crate::host::search::request::{Hits, HostRequest};
use crate::host::search::schedule::{QUERIES, Schedule, divide, parts_of};
use crate::host::search::scorer::Scorer;
use crate::memory;

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
        let gathered = request.allowed.and_then(|allowed| {
            self.gathered(allowed, (eligible, queries.rows()), request.budget, allowed.ones_in_order())
        });
        let schedule = |gathered: Option<&Gathered>| {
            let taken = gathered.map_or(0, |gathered| gathered.bytes(self.dim()));
            Schedule::of_free_memory(request.budget - taken, |budget| {
                self.schedule(queries.rows(), &HostRequest { budget, ..*request }, eligible)
            })
        };
        let (gathered, schedule) = match schedule(gathered.as_ref()) {
            // The budget may suffice without copies.
            Err(Error::Budget { .. }) if gathered.is_some() => (None, schedule(None)?),
            scheduled => (gathered, scheduled?),
        };
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
        // Groups without an allowed row are passed over.
        let open = request.allowed.filter(|_| gathered.is_none());
        let rows = gathered.map_or(self.end(), |gathered| gathered.slots.len());
        let groups = open.map_or(rows.div_ceil(GROUP), Self::groups_with);
        let scored = count * rows.min(groups * GROUP);
        let is_scored = gathered.is_none_or(|gathered| gathered.is_scored);
        // A distance takes about as long as the scores of a group.
        let tasks = if is_scored { groups } else { rows };
        let parts = parts_of(count.div_ceil(QUERIES), tasks, schedule.threads);
        let parts = self.divided(open, rows, schedule.limit_parts(parts, count));
        let task = (count, scored.saturating_mul(self.dim()));
        let by_query = divide(task, [QUERIES, parts.len()], schedule.threads, |chunk, part, stop| {
            let queries = batch.slice(chunk.clone());
            let mut candidates = request.candidates(chunk.len(), eligible)?;
            if let Some(gathered) = gathered.filter(|_| !is_scored) {
                let slots = &gathered.slots[parts[part].clone()];
                self.keep_all(queries, slots, stop, &mut candidates)?;
                return Ok(candidates);
            }
            let mut scorer = Scorer::new(self, gathered, queries, stop)?;
            let chosen = scorer.choose(memory::collect(0..chunk.len() as u32)?)?;
            let places = (parts[part].clone(), schedule.groups);
            self.scan(&mut scorer, &chosen, places, (request.allowed, gathered), &mut candidates)?;
            Ok(candidates)
        })?;
        hits.scored += scored as u64;
        self.finish(batch, by_query, hits)
    }

    /// Divides places of rows into up to `parts` ranges of whole groups, with about as many groups that have an allowed row in each.
    fn divided(&self, allowed: Option<&Bits>, rows: usize, parts: usize) -> Vec<Range<usize>> {
        if parts == 1 {
            return std::iter::once(0..rows).collect();
        }
        let open = allowed.map_or(rows.div_ceil(GROUP), Self::groups_with);
        let each = open.div_ceil(parts).next_multiple_of(2).max(1);
        let is_open = |&start: &usize| allowed.is_none_or(|allowed| allowed.has_any(start..start + GROUP));
        let starts: Vec<usize> = (0..rows).step_by(GROUP).filter(is_open).step_by(each).collect();
        let ends = starts.iter().skip(1).copied().chain([rows]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }
}
