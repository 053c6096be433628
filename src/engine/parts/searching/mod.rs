//! Searches of an index on several devices.

mod documents;
mod replicas;

use std::ops::Range;

use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::parts::merging::{Counts, all_or_first, joined, merged};
use crate::engine::parts::rows::Parts;
use crate::engine::parts::together::{Work, together, together_briefly};
use crate::engine::rows::allowed::Allowed;
use crate::engine::rows::contract::Rows;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::options::Progress;
use crate::options::distribution::Distribution;

/// Queries that are worth another replica's launches, or another thread: with fewer, one replica answers all, and one thread waits for all
/// shards.
const LEAST_QUERIES: usize = 32;

/// A function for each device that notes how many queries it has answered, and tells how many all have.
fn notes<'a>(
    devices: usize,
    counts: &'a Counts,
    progress: Option<Progress<'a>>,
) -> Vec<impl Fn(usize) + Send + Sync + use<'a>> {
    let note = |device| {
        move |answered| {
            let told = counts.note(device, answered);
            progress.into_iter().for_each(|progress| progress(told));
        }
    };
    (0..devices).map(note).collect()
}

impl Parts {
    /// What each device that is not lost comes to, whose places `work` is told.
    pub(in crate::engine::parts) async fn on_live<'f, T: Send + 'f>(
        &'f self,
        work: impl Fn(usize) -> Boxed<'f, T>,
    ) -> Result<Vec<T>> {
        let works = self.live().into_iter().map(|place| (self.engine(place), work(place)));
        all_or_first(together(works.collect()).await)
    }

    /// Searches on all devices. Distances of L2 are its squares still.
    pub(in crate::engine::parts) fn search_once<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            let queries = queries.fetched().await?;
            match self.distribution {
                Distribution::Sharded => self.search_shards(queries.vectors(), request).await,
                Distribution::Replicated => self.search_replicas(queries.vectors(), request).await,
            }
        })
    }

    async fn search_shards(
        &self,
        queries: HostVectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let allowed = request.allowed.map(|allowed| self.allowed(allowed)).transpose()?;
        // Each answers all queries.
        let counts = Counts::new(self.parts.len(), |all| all.into_iter().min().unwrap_or(0));
        let notes = notes(self.parts.len(), &counts, request.progress);
        let (count, queries) = (queries.rows(), Vectors::from(queries));
        let works = self.parts.iter().enumerate().map(|(device, rows)| -> Work<'_, SearchResult> {
            let allowed = allowed.as_ref().map(|allowed| &allowed[device]);
            let progress = request.progress.map(|_| &notes[device] as _);
            let (request, queries) = (SearchRequest { allowed, progress, ..*request }, &queries);
            let work = async move { rows.search(queries, &request).await };
            (self.engine(device), Box::pin(work))
        });
        let works = works.collect();
        let found = match count < LEAST_QUERIES {
            true => together_briefly(works).await,
            false => together(works).await,
        };
        let found = found.into_iter().enumerate().map(|(device, found)| self.noted(device, found));
        merged(all_or_first(found.collect())?, request.radius.map_or(request.k, |_| usize::MAX))
    }

    /// The rows of each device that pass a filter.
    fn allowed(&self, allowed: &Allowed) -> Result<Vec<Allowed>> {
        let Some(layout) = &self.layout else { return Err(Error::internal("replicas have one filter")) };
        let split = layout.split(&allowed.bits)?;
        let of_device = |(mut bits, end): (crate::bits::Bits, u64)| {
            bits.resize(end as usize)?;
            Ok(Allowed::new(bits))
        };
        split.into_iter().zip(self.parts.iter().map(|part| part.end())).map(of_device).collect()
    }

    async fn search_replicas(
        &self,
        queries: HostVectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let counts = Counts::new(self.parts.len(), |all| all.into_iter().sum());
        let notes = notes(self.parts.len(), &counts, request.progress);
        let work = |device: usize, range: Range<usize>| -> Boxed<'_, SearchResult> {
            let progress = request.progress.map(|_| &notes[device] as _);
            let (request, queries) =
                (SearchRequest { progress, ..*request }, Vectors::from(queries.slice(range)));
            Box::pin(async move { self.parts[device].search(&queries, &request).await })
        };
        joined(self.on_replicas((queries.rows(), LEAST_QUERIES), work).await?)
    }

    /// The plan of the device that has most to do.
    pub(in crate::engine::parts) fn longest_plan(
        &self,
        queries: usize,
        k: usize,
        budget: u64,
    ) -> Result<Plan> {
        let most = (0..self.parts.len()).max_by_key(|&place| self.parts[place].end()).unwrap_or(0);
        let own = match self.distribution {
            Distribution::Sharded => queries,
            Distribution::Replicated => {
                queries.div_ceil((queries / LEAST_QUERIES).clamp(1, self.live().len().max(1)))
            }
        };
        let plan = self.parts[most].plan(own, k, budget)?;
        let k = (k as u64).min(self.len()) as u32;
        Ok(Plan { devices: self.parts.len(), distribution: Some(self.distribution), k, ..plan })
    }
}
