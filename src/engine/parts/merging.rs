//! Merges what several devices found into one answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::search::request::{SearchResult, Statistics};
use crate::error::{Error, Result};
use crate::gpu::StageTime;
use crate::neighbors::Neighbors;

/// How far several devices are, and the one number that is told of it.
pub(super) struct Counts {
    of_each: Vec<AtomicUsize>,
    of_all: fn(Vec<usize>) -> usize,
}

impl Counts {
    pub(super) fn new(devices: usize, of_all: fn(Vec<usize>) -> usize) -> Self {
        Self { of_each: (0..devices).map(|_| AtomicUsize::new(0)).collect(), of_all }
    }

    /// Notes how far a device is; one that begins anew has told it before. Returns how far all are.
    pub(super) fn note(&self, device: usize, count: usize) -> usize {
        self.of_each[device].fetch_max(count, Ordering::Relaxed);
        (self.of_all)(self.of_each.iter().map(|count| count.load(Ordering::Relaxed)).collect())
    }
}

/// The k nearest rows of what devices with different rows found for the same queries.
pub(super) fn merged(found: Vec<SearchResult>, k: usize) -> Result<SearchResult> {
    let (neighbors, statistics): (Vec<_>, Vec<_>) =
        found.into_iter().map(|one| (one.neighbors, one.statistics)).unzip();
    Ok(SearchResult { neighbors: Neighbors::merge(&neighbors, k)?, statistics: summed(statistics, u64::max) })
}

/// What devices with the same rows found for one part of the queries after the other.
pub(super) fn joined(found: Vec<SearchResult>) -> Result<SearchResult> {
    let (neighbors, statistics): (Vec<_>, Vec<_>) =
        found.into_iter().map(|one| (one.neighbors, one.statistics)).unzip();
    Ok(SearchResult {
        neighbors: Neighbors::join(&neighbors)?,
        statistics: summed(statistics, u64::saturating_add),
    })
}

/// The work of all devices, with the stages of the one that took longest. `queries` joins the numbers of queries of two devices.
fn summed(of_devices: Vec<Statistics>, queries: fn(u64, u64) -> u64) -> Statistics {
    let mut all = Statistics::default();
    for one in &of_devices {
        all.add(one);
        all.searched_flat = queries(all.searched_flat, one.searched_flat);
        all.on_host |= one.on_host;
        all.devices += one.devices.max(1);
    }
    all.stages = slowest(of_devices.into_iter().map(|one| one.stages));
    all
}

/// The stages of the device that took longest.
pub(super) fn slowest(of_devices: impl Iterator<Item = Vec<StageTime>>) -> Vec<StageTime> {
    let time = |stages: &Vec<StageTime>| stages.iter().map(|stage| stage.time).sum::<std::time::Duration>();
    of_devices.max_by_key(time).unwrap_or_default()
}

/// The results, or one error of several: that of the row or query with the least number, so that it does not depend on how work was
/// divided. The loss of a device comes last, because other errors are the caller's to mend.
pub(super) fn all_or_first<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    let rank = |error: &Error| match error {
        Error::NotFinite { row, .. } | Error::NormOutOfRange { row, .. } => (0, *row),
        Error::DeviceLost { .. } => (2, 0),
        _ => (1, 0),
    };
    let (mut done, mut first): (Vec<T>, Option<Error>) = (vec![], None);
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(error) if first.as_ref().is_none_or(|first| rank(&error) < rank(first)) => {
                first = Some(error)
            }
            Err(_) => {}
        }
    }
    first.map_or(Ok(done), Err)
}
