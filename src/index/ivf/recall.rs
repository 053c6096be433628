//! How many lists a search probes for a recall.

use std::collections::HashSet;

use crate::elements::Matrix;
use crate::engine::Vectors;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::check_recall;
use crate::index::ivf::Ivf;
use crate::index::ivf::measured::{Next, RecallTarget, append};
use crate::neighbors::{Neighbor, Neighbors};
use crate::options::SearchOptions;

/// With fewer queries than this, as many rows of the index are searched for as well.
const ENOUGH: usize = 300;

/// Standard errors between a mean and the bound that it passes in 95 of 100 samples.
const MARGIN: f64 = 1.645;

impl Ivf {
    pub(super) fn boxed_probes<'s>(
        &'s self,
        queries: Vectors<'s>,
        k: usize,
        recall: f64,
    ) -> Boxed<'s, usize> {
        Box::pin(async move {
            if queries.rows() == 0 {
                return Err(Error::argument("queries", "at least one", 0));
            }
            check_recall(recall)?;
            let probes = self.probes_of(queries, &[], k, recall).await?;
            let ids = if queries.rows() < ENOUGH { self.some_ids()? } else { vec![] };
            if probes == self.lists || ids.is_empty() {
                return Ok(probes);
            }
            let rows = self.common.fetch(&ids).await?;
            Ok(probes.max(self.probes_of((&rows).into(), &ids, k, recall).await?))
        })
    }

    /// The lists to probe for a recall. It is measured with the queries since the last change, again and again while they become more.
    pub(super) async fn probes_for(&self, wanted: RecallTarget, queries: Vectors<'_>) -> Result<usize> {
        let mut seen = match self.recalls.next(wanted, queries.rows(), queries.dim())? {
            Next::Probe(probes) => return Ok(probes),
            Next::Measure(seen) => seen,
        };
        let before = seen.len() / queries.dim();
        append(&mut seen, queries.fetched().await?.vectors())?;
        // Bits are bytes again.
        let all = Matrix::F32(seen, queries.dim()).to_kind(self.common.metric.default_elements());
        let probes = self.boxed_probes((&all).into(), wanted.0, wanted.1).await;
        // Those before were searched for, so they are good.
        let probes = probes.map_err(|error| error.with_rows(|row| row.saturating_sub(before as u64)))?;
        self.recalls.learn(wanted, all.rows(), probes);
        Ok(probes)
    }

    /// Keeps queries that were searched for, to measure the recall with.
    pub(super) async fn keep_seen(&self, queries: Vectors<'_>) {
        // The search is done: it does not fail for queries that there is no memory for.
        if self.recalls.has_room()
            && let Ok(queries) = queries.fetched().await
        {
            let _ = self.recalls.keep(queries.vectors());
        }
    }

    /// Ids of rows from all over the index.
    fn some_ids(&self) -> Result<Vec<u64>> {
        let ids = self.common.store.ids()?;
        Ok(ids.iter().copied().step_by(ids.len().div_ceil(ENOUGH).max(1)).collect())
    }

    /// The fewest probes with which these queries reach the recall. Queries that are rows have ids, and are not among their own neighbours.
    async fn probes_of(&self, queries: Vectors<'_>, own: &[u64], k: usize, recall: f64) -> Result<usize> {
        let wanted = if own.is_empty() { k } else { k.saturating_add(1) };
        let truth = self.probed(queries, wanted, self.lists).await?;
        let is_enough =
            |found: &Neighbors| certain_recall((found, &truth), own, k).is_none_or(|part| part >= recall);
        // A query finds with more probes all that it finds with fewer, so the recall never falls; the margin hardly moves.
        let (mut too_few, mut enough) = (0, self.lists);
        let mut next = 1;
        while enough - too_few > 1 {
            let probes = next.clamp(too_few + 1, enough - 1);
            let found = self.probed(queries, wanted, probes).await?;
            if is_enough(&found) {
                enough = probes;
            } else {
                too_few = probes;
            }
            // Few probes cost little: doubled until they are enough, then halved between.
            next = if enough == self.lists { 2 * probes } else { (too_few + enough) / 2 };
        }
        Ok(enough)
    }

    async fn probed(&self, queries: Vectors<'_>, k: usize, probes: usize) -> Result<Neighbors> {
        Ok(self.boxed_search(queries, &SearchOptions::new(k).probes(probes)).await?.neighbors)
    }
}

/// The recall that queries like these are at least expected to have: the part of their true neighbours that was found, less a margin
/// for the number of queries. None if there is nothing to find.
///
/// Queries that all have the same recall leave no margin: where all are complete, the sample tells nothing of rare ones that are not.
/// Queries are independent and their neighbours are not, so the error is that of a ratio of sums over queries (W. G. Cochran, *Sampling
/// techniques*, 1977, chapter 6).
fn certain_recall((found, truth): (&Neighbors, &Neighbors), own: &[u64], k: usize) -> Option<f64> {
    let others = |hits: &[Neighbor], query: usize| -> HashSet<u64> {
        let ids = hits.iter().map(|hit| hit.id).filter(|id| own.get(query) != Some(id));
        ids.take(k).collect()
    };
    let of_query = |(query, (found, truth)): (usize, (&[Neighbor], &[Neighbor]))| {
        let (found, truth) = (others(found, query), others(truth, query));
        (found.intersection(&truth).count() as f64, truth.len() as f64)
    };
    let queries: Vec<(f64, f64)> = found.iter().zip(truth).enumerate().map(of_query).collect();
    let (shared, all) = queries.iter().fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
    if all == 0.0 {
        return None;
    }
    let (recall, count) = (shared / all, queries.len() as f64);
    // Products of whole numbers, so that queries of the same recall differ by nothing.
    let deviation = |(found, truth): &(f64, f64)| (found * all - shared * truth) / all;
    let squares: f64 = queries.iter().map(|query| deviation(query).powi(2)).sum();
    let error = (squares / (count * (count - 1.0).max(1.0))).sqrt() / (all / count);
    Some((recall - MARGIN * error).max(0.0))
}
