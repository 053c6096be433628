//! The scan of rows for candidates: score, drop what intervals exclude, refine the rest.

use std::ops::Range;

use crate::parallel::*;

use crate::bits::Bits;
use crate::error::Result;
use crate::host::integers::packed::GROUP;
use crate::host::rows::gathered::Gathered;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::Batch;
use crate::host::search::candidates::Candidates;
use crate::host::search::intervals::sift;
use crate::host::search::pair::{NormedVector, distance};
use crate::host::search::request::Hits;
use crate::host::search::scorer::{Chosen, Scorer, Scores};
use crate::interrupt::{self, Stop};
use crate::kernels::key_of;
use crate::memory;

/// Fewer queries are finished by the calling thread: waking others takes longer.
const FEW: usize = 64;

/// Groups without an allowed row that are scored with their neighbours: starting anew behind them takes as long.
const BRIDGED: usize = 2;

impl HostRows {
    /// Scores the rows at some places, of all or of gathered ones, up to `step` groups at a time, for the chosen queries, and adds those that
    /// intervals cannot exclude to their candidates. Groups without an allowed row are passed over.
    pub(crate) fn scan(
        &self,
        scorer: &mut Scorer<'_>,
        chosen: &Chosen,
        (within, step): (Range<usize>, usize),
        (allowed, gathered): (Option<&Bits>, Option<&Gathered>),
        candidates: &mut [Candidates],
    ) -> Result<()> {
        let queries = scorer.queries;
        let Chosen { places, terms: query_terms } = chosen;
        let mut limits = memory::collect(places.iter().map(|&place| candidates[place as usize].limit))?;
        let allowed = allowed.or(self.alive()).filter(|_| gathered.is_none());
        let end = within.end.div_ceil(GROUP);
        // The next group with an allowed row.
        let open = |from: usize| match allowed {
            Some(bits) => bits.next_one(from * GROUP).map(|slot| slot / GROUP),
            None => Some(from),
        };
        let mut next = open(within.start / GROUP);
        while let Some(start) = next.filter(|&start| start < end) {
            let most = end.min(start + step);
            let mut range = start..start;
            while let Some(group) = next.filter(|&group| group < most && group <= range.end + BRIDGED) {
                range.end = group + 1;
                next = open(range.end);
            }
            let (terms, scores) = scorer.score(range)?;
            let keep = |query: usize, group: usize, lane: usize, lower: f32| {
                let slot = (start + group) * GROUP + lane;
                let place = places[query] as usize;
                let candidates = &mut candidates[place];
                if within.contains(&slot) && allowed.is_none_or(|bits| bits.get(slot)) {
                    let upper = query_terms[query].upper_end(&terms[group], lane, lower);
                    let slot = gathered.map_or(slot as u32, |gathered| gathered.slots[slot]);
                    if candidates.add(lower, upper, slot) {
                        self.settle(queries, place, candidates);
                    }
                }
                candidates.limit
            };
            match scores {
                Scores::Integers(scores) => {
                    let pitch = [query_terms.len() * GROUP, GROUP];
                    sift(terms, query_terms, (scores, pitch), &mut limits, keep);
                }
                Scores::Floats(scores) => {
                    let pitch = [GROUP, terms.len() * GROUP];
                    sift(terms, query_terms, (scores, pitch), &mut limits, keep);
                }
            }
        }
        Ok(())
    }

    /// Keeps the rows in these slots without scoring them.
    pub(crate) fn keep_all(
        &self,
        queries: Batch<'_>,
        slots: &[u32],
        stop: Stop<'_>,
        candidates: &mut [Candidates],
    ) -> Result<()> {
        for (query, candidates) in candidates.iter_mut().enumerate() {
            stop.check()?;
            for &slot in slots {
                if candidates.add(f32::NEG_INFINITY, f32::INFINITY, slot) {
                    stop.check()?;
                    self.settle(queries, query, candidates);
                }
            }
        }
        Ok(())
    }

    /// Finishes the candidates of a batch and appends the rows found for each query to `hits`.
    pub(crate) fn finish(
        &self,
        batch: Batch<'_>,
        mut by_query: Vec<Candidates>,
        hits: &mut Hits,
    ) -> Result<()> {
        let finish = |stop: Stop<'_>, (query, candidates): (usize, &mut Candidates)| {
            stop.check()?;
            self.settle(batch, query, candidates);
            candidates.sort();
            Ok(())
        };
        if by_query.len() < FEW {
            by_query.iter_mut().enumerate().try_for_each(|query| finish(Stop::here(), query))?;
        } else {
            let waiting: usize = by_query.iter().map(Candidates::waiting).sum();
            let all = by_query.par_iter_mut().enumerate();
            interrupt::watch(waiting.saturating_mul(self.dim()), |stop| {
                all.try_for_each(|query| finish(stop, query))
            })?;
        }
        by_query.iter().try_for_each(|candidates| hits.push(candidates))
    }

    /// Computes the distances of a query's waiting rows.
    pub(crate) fn settle(&self, batch: Batch<'_>, query: usize, candidates: &mut Candidates) {
        // Threads that score rows take no memory without asking, because another may have taken all that was left.
        let Ok(mut scratch) = memory::filled(self.values.scratch_len(), 0.0) else {
            return candidates.give_up();
        };
        let query = NormedVector { values: batch.vectors.row(query), squared: batch.squared[query] };
        self.settle_for(query, candidates, &mut scratch);
    }

    /// Computes the distances of the waiting rows of a row.
    pub(crate) fn settle_row(&self, slot: usize, candidates: &mut Candidates) {
        let [own, scratch] = [0, 1].map(|_| memory::filled(self.values.scratch_len(), 0.0));
        let (Ok(mut own), Ok(mut scratch)) = (own, scratch) else { return candidates.give_up() };
        let query =
            NormedVector { values: self.values.row(slot, &mut own), squared: self.values.squared[slot] };
        self.settle_for(query, candidates, &mut scratch);
    }

    fn settle_for(&self, query: NormedVector<'_>, candidates: &mut Candidates, scratch: &mut [f32]) {
        candidates.settle(|slot, soon| {
            let slot = slot as usize;
            soon.into_iter().for_each(|soon| self.values.prefetch(soon as usize));
            let values = self.values.row(slot, scratch);
            let row = NormedVector { values, squared: self.values.squared[slot] };
            (key_of(distance(self.metric, query, row)), self.ids[slot])
        });
    }
}
