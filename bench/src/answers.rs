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

/// Checks one answer against all rows that are allowed: its distances and their order, and that no row is left out that is certainly
/// nearer than its last one or, of an answer within a radius, than that.
pub(super) fn complete(
    metric: Metric,
    rows: View<'_>,
    query: &[f32],
    hits: &[Neighbor],
    radius: Option<f32>,
    is_allowed: impl Fn(usize) -> bool + Sync,
) -> Result<()> {
    let distance = |row| if is_allowed(row) { metric.exact(query, rows.row(row)) } else { f64::INFINITY };
    let mut left: Vec<f64> = (0..rows.rows()).into_par_iter().map(distance).collect();
    let (mut last, mut slack) = (f64::NEG_INFINITY, 0.0f64);
    for hit in one(metric, rows, query, hits)? {
        let id = hit.id as usize;
        ensure!(is_allowed(id), "row {id} is not allowed");
        slack = slack.max(metric.error_bound(query, rows.row(id)));
        last = last.max(hit.distance);
        left[id] = f64::INFINITY;
    }
    let beyond = radius.and_then(|radius| hits.iter().find(|hit| hit.distance >= radius));
    ensure!(beyond.is_none(), "{beyond:?} is not within the radius");
    let nearest = left.iter().copied().enumerate().min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((row, distance)) = nearest.filter(|(_, distance)| distance.is_finite()) else { return Ok(()) };
    slack = slack.max(metric.error_bound(query, rows.row(row)));
    let limit = radius.map_or(last, f64::from);
    ensure!(distance >= limit - 2.0 * slack, "row {row} at {distance} was left out");
    Ok(())
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
    #[test]
    fn an_answer_that_left_a_row_out_is_refused() {
        let rows = [0.0, 1.0, 2.0f32];
        let rows = View::new(&rows, 1).expect("rows");
        let hit = |id: u64| Neighbor { id, distance: id as f32 };
        let check = |hits: &[Neighbor], radius, is_allowed: &(dyn Fn(usize) -> bool + Sync)| {
            complete(Metric::L2, rows, &[0.0], hits, radius, is_allowed).is_ok()
        };
        assert!(check(&[hit(0), hit(1)], None, &|_| true) && check(&[hit(1), hit(2)], None, &|row| row > 0));
        assert!(!check(&[hit(0), hit(2)], None, &|_| true) && !check(&[hit(0)], None, &|row| row > 0));
        assert!(check(&[hit(0), hit(1)], Some(1.5), &|_| true) && check(&[], Some(0.0), &|_| true));
        assert!(!check(&[hit(0)], Some(1.5), &|_| true), "a row within the radius");
        assert!(!check(&[hit(0), hit(1)], Some(0.5), &|_| true), "a row beyond it");
        assert!(!check(&[hit(0), hit(1), hit(2)], Some(0.5), &|_| true), "all rows");
    }
}
