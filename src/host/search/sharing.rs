//! How the work of a search is shared out: queries in batches, batches in chunks for threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;
use crate::host::search::nominees::Nominees;
use crate::host::search::pipeline::Asked;
use crate::host::search::scorer::Batch;
use crate::host::widened;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Groups that are worth a thread.
const GROUPS_A_THREAD: usize = 256;

/// Queries in batches of up to `most`, widened to f32.
pub(crate) fn by_batch<T: Element>(
    (queries, squared): (MatrixView<'_, T>, &[f64]),
    most: usize,
    asked: &Asked<'_>,
    mut answered: impl FnMut(Batch<'_>) -> Result<()>,
) -> Result<()> {
    let mut space = vec![];
    for start in (0..queries.rows()).step_by(most.max(1)) {
        let range = start..queries.rows().min(start + most);
        let part = queries.slice(range.clone());
        if T::KIND == ElementKind::F16 {
            space.resize(part.values().len(), 0.0);
        }
        let values = widened(part.values(), &mut space);
        answered(Batch {
            vectors: MatrixView::new(values, queries.dim())?,
            squared: &squared[range.clone()],
        })?;
        if let Some(progress) = asked.progress {
            progress(range.end);
        }
    }
    Ok(())
}

/// Parts that each of so many chunks of queries is searched in, where so many groups of rows are looked at.
pub(crate) fn parts_of(chunks: usize, groups: usize, threads: usize) -> usize {
    if chunks >= 2 * threads || threads == 1 {
        return 1;
    }
    (2 * threads).div_ceil(chunks).min(groups / GROUPS_A_THREAD).max(1)
}

/// Shares queries out among so many threads in chunks, each in parts: what `work` finds for a chunk in a part, put together query by query.
pub(crate) fn shared_out(
    queries: usize,
    [chunk, parts]: [usize; 2],
    threads: usize,
    work: impl Fn(Range<usize>, usize) -> Vec<Nominees> + Sync,
) -> Vec<Nominees> {
    let chunks = (0..queries).step_by(chunk).map(|start| start..queries.min(start + chunk));
    let tasks: Vec<(Range<usize>, usize)> =
        chunks.flat_map(|chunk| (0..parts).map(move |part| (chunk.clone(), part))).collect();
    // A thread that is woken costs more than little work.
    if let [(chunk, part)] = &tasks[..] {
        return work(chunk.clone(), *part);
    }
    let work = |(chunk, part): &(Range<usize>, usize)| work(chunk.clone(), *part);
    let done: Vec<Vec<Nominees>> = if threads < rayon::current_num_threads() {
        let shares = tasks.par_chunks(tasks.len().div_ceil(threads).max(1));
        shares.flat_map_iter(|tasks| tasks.iter().map(work)).collect()
    } else {
        tasks.par_iter().map(work).collect()
    };
    let mut by_query: Vec<Nominees> = Vec::with_capacity(queries);
    let mut done = done.into_iter();
    while let Some(mut first) = done.next() {
        for others in done.by_ref().take(parts - 1) {
            first.iter_mut().zip(others).for_each(|(one, other)| one.merge(other));
        }
        by_query.extend(first);
    }
    by_query
}
