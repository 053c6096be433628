//! Searches of an index on several devices.

use std::sync::atomic::{AtomicUsize, Ordering};

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
use crate::options::distribution::Distribution;

/// Queries that are worth another replica's launches, or another thread: with fewer, one replica answers all, and one thread waits for all
/// shards.
const LEAST_QUERIES: usize = 32;

/// A function for each device that notes how many queries it has answered, and tells how many all have.
fn notes<'a>(
    devices: usize,
    counts: &'a Counts,
    request: &SearchRequest<'a>,
) -> Vec<impl Fn(usize) + Send + Sync + use<'a>> {
    let progress = request.progress;
    let note = |device| {
        move |answered| {
            let told = counts.note(device, answered);
            progress.into_iter().for_each(|progress| progress(told));
        }
    };
    (0..devices).map(note).collect()
}

/// Counts a search among those that a device runs.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Parts {
    /// What each device that is not lost comes to, whose places `work` is told.
    pub(super) async fn on_live<'f, T: Send + 'f>(
        &'f self,
        work: impl Fn(usize) -> Boxed<'f, T>,
    ) -> Result<Vec<T>> {
        let works = self.live().into_iter().map(|place| (self.engine(place), work(place)));
        all_or_first(together(works.collect()).await)
    }

    /// Searches on all devices. Distances of L2 are its squares still.
    pub(super) fn search_once<'f>(
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
        let notes = notes(self.parts.len(), &counts, request);
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

    /// Divides queries among the devices that are left. Where one is lost meanwhile, the others answer its queries.
    async fn search_replicas(
        &self,
        queries: HostVectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let count = queries.rows();
        let live = self.live();
        let mut open = match live.len() {
            0 => return Err(self.none_left()),
            devices if count < LEAST_QUERIES * devices.min(2) => {
                // The one with the least to do.
                let busy = |place: &&usize| self.busy[**place].load(Ordering::Relaxed);
                let place = live.iter().min_by_key(busy).copied().unwrap_or(0);
                vec![(place, 0..count)]
            }
            devices => {
                let used = devices.min(count / LEAST_QUERIES);
                let start = |part: usize| count * part / used;
                let parts = live[..used].iter().enumerate();
                parts.map(|(part, &place)| (place, start(part)..start(part + 1))).collect()
            }
        };
        let counts = Counts::new(self.parts.len(), |all| all.into_iter().sum());
        let notes = notes(self.parts.len(), &counts, request);
        let mut done: Vec<(usize, SearchResult)> = vec![];
        loop {
            let works = open.iter().map(|(device, range)| -> Work<'_, SearchResult> {
                let (device, queries) = (*device, Vectors::from(queries.slice(range.clone())));
                let busy = Busy::new(&self.busy[device]);
                let progress = request.progress.map(|_| &notes[device] as _);
                let request = SearchRequest { progress, ..*request };
                let work = async move {
                    let _busy = busy;
                    self.parts[device].search(&queries, &request).await
                };
                (self.engine(device), Box::pin(work))
            });
            let results = together(works.collect()).await;
            let (mut again, mut errors) = (vec![], vec![]);
            for ((device, range), result) in open.into_iter().zip(results) {
                match self.noted(device, result) {
                    Ok(found) => done.push((range.start, found)),
                    Err(error @ Error::DeviceLost { .. }) if self.live().is_empty() => {
                        errors.push(Err(error))
                    }
                    Err(Error::DeviceLost { .. }) => again.push(range),
                    Err(error) => errors.push(Err(error.with_rows(|row| range.start as u64 + row))),
                }
            }
            all_or_first::<()>(errors)?;
            if again.is_empty() {
                break;
            }
            let left = self.live();
            if left.is_empty() {
                return Err(self.none_left());
            }
            open = again.into_iter().enumerate().map(|(n, range)| (left[n % left.len()], range)).collect();
        }
        done.sort_by_key(|(start, _)| *start);
        joined(done.into_iter().map(|(_, found)| found).collect())
    }

    /// The plan of the device that has most to do.
    pub(super) fn longest_plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
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
