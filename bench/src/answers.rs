//! Checks answers of searches against f64.

use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use nearfield::{Metric, Neighbor, Neighbors};
use rayon::prelude::*;

use super::data::View;
use nearfield_cli::recall::TrueHit;
use nearfield_testing::truth::check_hits;

/// Checks the answers to some queries, at most k rows each, and returns their true distances.
pub(super) fn checked<'a>(
    metric: Metric,
    rows: View<'_>,
    queries: View<'_>,
    k: usize,
    answers: impl Iterator<Item = &'a [Neighbor]>,
) -> Result<Vec<Vec<TrueHit>>> {
    let answers: Vec<_> = answers.collect();
    let (needed, given) = (queries.rows(), answers.len());
    ensure!(needed == given, "needed an answer for each of {needed} queries, found {given}");
    let each = answers.into_par_iter().enumerate().map(|(query, hits)| {
        let (most, given) = (k.min(rows.rows()), hits.len());
        ensure!(given <= most, "query {query}: needed at most {most} neighbours, found {given}");
        one(metric, rows, queries.row(query), hits).with_context(|| format!("query {query}"))
    });
    each.collect()
}

/// The time of a search, which has to give an answer that was checked.
pub(super) fn timed(
    checked: &Neighbors,
    search: impl FnOnce() -> nearfield::Result<Neighbors>,
) -> Result<Duration> {
    let started = Instant::now();
    let found = search()?;
    let elapsed = started.elapsed();
    ensure!(found == *checked, "a timed search differs from the one that was checked");
    Ok(elapsed)
}

/// Checks one answer and returns its true distances.
pub(super) fn one(metric: Metric, rows: View<'_>, query: &[f32], hits: &[Neighbor]) -> Result<Vec<TrueHit>> {
    let of = |id: u64| {
        let row = (id < rows.rows() as u64).then(|| rows.row(id as usize))?;
        Some((metric.exact(query, row), metric.error_bound(query, row)))
    };
    let found = check_hits(metric, hits, of).map_err(Error::msg)?;
    Ok(hits.iter().zip(found).map(|(hit, distance)| TrueHit { id: hit.id, distance }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_one_answer_of_at_most_k_rows() {
        let (rows, queries) = ([0.0, 1.0f32], [0.0f32]);
        let (rows, queries) = (View::new(&rows, 1), View::new(&queries, 1));
        let (rows, queries) = (rows.expect("rows"), queries.expect("queries"));
        let hits = [Neighbor { id: 0, distance: 0.0 }, Neighbor { id: 1, distance: 1.0 }];
        let of = |k, answers: &[&[Neighbor]]| {
            checked(Metric::L2Squared, rows, queries, k, answers.iter().copied()).is_ok()
        };
        assert!(of(2, &[&hits]) && of(3, &[&hits]) && of(2, &[&hits[..1]]));
        assert!(!of(1, &[&hits]) && !of(2, &[]) && !of(2, &[&hits, &hits]));
    }
}
