//! The one pipeline: rows are nominated, or all taken; rescored; selected.

use super::exhaustive::exhaustive;
use super::nominate::{Screen, nominate};
use super::plan::{Plan, Route};
use super::queries::{Numbers, Queries};
use super::rows::GpuRows;
use crate::error::Result;
use crate::gpu::{Profile, StageTime};
use crate::kernels::value_of;
use crate::metric::Metric;
use crate::neighbors::{Neighbor, Neighbors};

/// What a search is asked for.
pub(crate) struct SearchRequest<'a> {
    pub(crate) metric: Metric,
    pub(crate) k: usize,
    pub(crate) budget: u64,
    /// A bit a slot: rows whose bit is 0 are passed over.
    pub(crate) allowed: Option<&'a wgpu::Buffer>,
    /// Times the stages on the device.
    pub(crate) profile: bool,
    /// Called with the number of queries that are answered.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

/// What a search did.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Rows whose distance was computed as it is reported, over all queries that had rows nominated.
    pub rescored: u64,
    /// Queries whose list of nominated rows overflowed, and which were searched exhaustively.
    pub searched_again: u64,
    /// Device time of each stage, when asked for and where the adapter has timestamps.
    pub stages: Vec<StageTime>,
}

/// An answer and how it came about.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) neighbors: Neighbors,
    pub(crate) statistics: Statistics,
}

pub(super) async fn search(
    rows: &GpuRows,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    let count = queries.rows();
    queries.check_device(&rows.gpu)?;
    let plan = Plan::new(rows, count as u64, request.k as u64, request.budget)?;
    let mut profile = if request.profile { Profile::new(&rows.gpu) } else { None };
    let mut neighbors = Neighbors::with_capacity(count, plan.k as usize);
    let mut statistics = Statistics::default();
    if rows.len() == 0 {
        (0..count).for_each(|_| neighbors.push_row([]));
        return Ok(Found { neighbors, statistics });
    }
    let mut start = 0;
    while start < count {
        let end = count.min(start + plan.batch as usize);
        let numbers = Numbers::Range(start..end);
        match plan.route {
            Route::Exhaustive { .. } => {
                let found = exhaustive(rows, queries, &numbers, request, &plan, profile.as_mut()).await?;
                found.into_iter().for_each(|row| neighbors.push_row(row));
            }
            Route::Nominate { kernel, capacity, chunks, .. } => {
                let screen = Screen { kernel, capacity, chunks, k: plan.k };
                let mut found = nominate(rows, queries, &numbers, request, &screen, profile.as_mut()).await?;
                statistics.rescored += found.rescored;
                let again = std::mem::take(&mut found.overflowed);
                statistics.searched_again += again.len() as u64;
                let slow = Plan::exhaustive(rows, again.len() as u64, plan.k.into(), request.budget)?;
                for list in again.chunks(slow.batch as usize) {
                    let numbers = Numbers::List(list.iter().map(|place| start + place).collect());
                    let rows = exhaustive(rows, queries, &numbers, request, &slow, profile.as_mut()).await?;
                    for (place, row) in list.iter().zip(rows) {
                        found.rows[*place] = row;
                    }
                }
                found.rows.into_iter().for_each(|row| neighbors.push_row(row));
            }
        }
        start = end;
        if let Some(progress) = request.progress {
            progress(end);
        }
    }
    if let Some(profile) = profile {
        statistics.stages = profile.times(&rows.gpu).await?;
    }
    Ok(Found { neighbors, statistics })
}

/// Rows of results from the device's bytes: keys and ids `[queries, pitch]`, and how many of the first k are there.
pub(super) fn decode(
    metric: Metric,
    k: usize,
    pitch: usize,
    keys: &[u8],
    ids: &[u8],
    counts: &[u8],
) -> Vec<Vec<Neighbor>> {
    let keys: Vec<u32> = bytemuck::pod_collect_to_vec(keys);
    let ids: Vec<[u32; 2]> = bytemuck::pod_collect_to_vec(ids);
    let counts: Vec<u32> = bytemuck::pod_collect_to_vec(counts);
    let distance = |key: u32| match metric {
        Metric::L2 => value_of(key).sqrt(),
        _ => value_of(key),
    };
    let row = |(query, &count): (usize, &u32)| -> Vec<Neighbor> {
        let range = query * pitch..query * pitch + k.min(count as usize);
        let ids = ids[range.clone()].iter().map(|&[low, high]| u64::from(high) << 32 | u64::from(low));
        keys[range].iter().zip(ids).map(|(&key, id)| Neighbor { id, distance: distance(key) }).collect()
    };
    counts.iter().enumerate().map(row).collect()
}
