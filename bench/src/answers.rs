//! Checks answers of searches against f64.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield::{Metric, Neighbor, Neighbors};
use rayon::prelude::*;

use super::data::View;
use nearfield_cli::recall::TrueHit;

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

/// Checks one answer and returns its true distances. Fails if a row is found twice, is out of order, or is reported with a
/// larger error than promised.
pub(super) fn one(metric: Metric, rows: View<'_>, query: &[f32], hits: &[Neighbor]) -> Result<Vec<TrueHit>> {
    let (mut ids, mut found) = (HashSet::new(), vec![]);
    for &Neighbor { id, distance } in hits {
        ensure!(id < rows.rows() as u64, "needed ids below {}, found {id}", rows.rows());
        ensure!(ids.insert(id), "row {id} is found twice");
        let row = rows.row(id as usize);
        let (exact, bound) = (metric.exact(query, row), metric.error_bound(query, row));
        let off = (f64::from(distance) - exact).abs();
        ensure!(off <= bound, "row {id} is reported at {distance}, is at {exact}, more than {bound} away");
        found.push(TrueHit { id, distance: exact });
    }
    for pair in hits.windows(2) {
        let [one, next] = [pair[0], pair[1]];
        // Different squares may have equal roots.
        let is_tied = one.distance == next.distance && (one.id < next.id || metric == Metric::L2);
        let is_ordered = one.distance < next.distance || is_tied;
        ensure!(
            is_ordered,
            "row {} at {} is before row {} at {}",
            one.id,
            one.distance,
            next.id,
            next.distance
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of an answer to the query 0 among rows at 0, 1, 2 and 2.
    fn fault(metric: Metric, hits: &[(u64, f32)]) -> Option<String> {
        let rows = [0.0, 1.0, 2.0, 2.0f32];
        let rows = View::new(&rows, 1).expect("rows");
        let hits: Vec<_> = hits.iter().map(|&(id, distance)| Neighbor { id, distance }).collect();
        one(metric, rows, &[0.0], &hits).err().map(|error| error.to_string())
    }

    #[test]
    fn only_answers_that_keep_the_promises_pass() {
        for (hits, part) in [
            (&[(0, 0.0), (1, 1.0), (2, 4.0), (3, 4.0)][..], None),
            (&[(2, 4.0)], None),
            (&[(1, 1.001)], Some("row 1 is reported at 1.001")),
            (&[(1, f32::NAN)], Some("row 1 is reported at NaN")),
            (&[(4, 4.0)], Some("needed ids below 4, found 4")),
            (&[(1, 1.0), (1, 1.0)], Some("row 1 is found twice")),
            (&[(1, 1.0), (0, 0.0)], Some("row 1 at 1 is before row 0")),
            (&[(3, 4.0), (2, 4.0)], Some("row 3 at 4 is before row 2")),
        ] {
            let found = fault(Metric::L2Squared, hits);
            let is_right = match (&found, part) {
                (None, None) => true,
                (Some(text), Some(part)) => text.contains(part),
                _ => false,
            };
            assert!(is_right, "{hits:?}: {found:?}");
        }
        // Equal roots may have different squares.
        assert_eq!(fault(Metric::L2, &[(3, 2.0), (2, 2.0)]), None);
    }

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
