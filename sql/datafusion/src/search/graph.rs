//! The nearest others of every row of a table.

use std::ops::Range;

use datafusion::common::{DataFusionError, Result};
use nearfield::{MatrixView, Metric, Neighbor, Neighbors, SearchOptions};
use rayon::prelude::*;

use crate::error::external;
use crate::search::block::{MORE, Work};
use crate::search::certificate::{least, reach};
use crate::search::hits::{Hit, Hits};
use crate::search::pairwise::{Comparison, Edge, PAIRS_AT_ONCE, Screen, Take, kept};

/// Rows whose neighbours are put in order at a time.
const ROWS_AT_ONCE: usize = 2048;
/// Rows that the library looks for again at a time.
const AGAIN_AT_ONCE: usize = 64;
/// Bits of a row below which f32 holds any two quotients of Jaccard distances apart: they differ by 2^-22.
const APART: usize = 1 << 11;

/// The k nearest others of each row, in the order of the rows, nearest first, ties by their order.
pub(crate) fn nearest(all: &Comparison, k: usize, take: Take<'_>) -> Result<Work> {
    let mut rows = NextRows { all, k: k.min(all.rows.count()), done: 0, work: Work::default(), take };
    let Some(screen) = all.screen()? else {
        rows.unnamed_before(all.rows.count(), None)?;
        return Ok(rows.work);
    };
    let count = screen.places.len();
    rows.work.screened = count * (count - 1);
    let named = rows.k.saturating_add(MORE).min(count);
    let options = SearchOptions::new(named);
    // The whole graph at once takes half the time of its rows piece by piece. It is held where it takes no more memory than the rows in f64
    // and f32, and where the pool has that.
    let [of_row, at_most] = [named * size_of::<Neighbor>(), all.rows.dim() * size_of::<[f32; 3]>()];
    let held = all.reservation.new_empty();
    if of_row <= at_most && held.try_grow(count * of_row).is_ok() {
        let graph = all.interruptible(|| screen.index.knn_graph_with(&options)).map_err(external)?;
        rows.named(graph.ids(), graph.neighbors(), &screen)?;
    } else {
        all.visited(|failed| {
            screen
                .index
                .visit_knn_graph(&options, &mut |ids, found| kept(rows.named(ids, &found, &screen), failed))
        })?;
    }
    rows.unnamed_before(all.rows.count(), Some(&screen))?;
    Ok(rows.work)
}

/// The answer, row by row.
struct NextRows<'a> {
    all: &'a Comparison,
    k: usize,
    /// The rows before this place are answered.
    done: usize,
    work: Work,
    take: Take<'a>,
}

/// What the library named for a row, with its place in the library.
type Named<'n> = (&'n [Neighbor], usize);

impl NextRows<'_> {
    /// Takes what the library named for the next of its rows.
    fn named(&mut self, ids: &[u64], found: &Neighbors, screen: &Screen) -> Result<()> {
        let at_once = self.at_once();
        for start in (0..ids.len()).step_by(at_once) {
            let places = start..ids.len().min(start + at_once);
            let mut rows: Vec<(usize, Option<Named<'_>>)> = vec![];
            for place in places {
                let row = screen.place(ids[place]);
                rows.extend(unnamed(self.done..row, Some(screen)).map(|row| (row, None)));
                rows.push((row, Some((found.row(place), ids[place] as usize))));
                self.done = row + 1;
            }
            self.answer(&rows, Some(screen))?;
        }
        Ok(())
    }

    /// Answers for the rows before a place that the library does not take.
    fn unnamed_before(&mut self, end: usize, screen: Option<&Screen>) -> Result<()> {
        let rows: Vec<(usize, Option<Named<'_>>)> =
            unnamed(self.done..end, screen).map(|row| (row, None)).collect();
        rows.chunks(self.at_once()).try_for_each(|rows| self.answer(rows, screen))
    }

    /// Rows that are answered at a time, so that their neighbours take little memory.
    fn at_once(&self) -> usize {
        (PAIRS_AT_ONCE / self.k.max(1)).clamp(1, ROWS_AT_ONCE)
    }

    fn answer(&mut self, rows: &[(usize, Option<Named<'_>>)], screen: Option<&Screen>) -> Result<()> {
        let (all, k) = (self.all, self.k);
        let of_row = |&(row, named): &(usize, Option<Named<'_>>)| {
            all.check()?;
            Ok::<_, DataFusionError>(match named.zip(screen) {
                Some((named, screen)) => of_named(all, k, row, named, screen),
                None => (of_all(all, k, row), true),
            })
        };
        let answers = rows.par_iter().map(of_row).collect::<Result<Vec<_>>>()?;
        let named = |named: Option<Named<'_>>| named.map_or(all.rows.count(), |(named, _)| named.len());
        self.work.refined += rows.iter().map(|row| named(row.1)).sum::<usize>();
        let (mut answers, are_certain): (Vec<Hits>, Vec<bool>) = answers.into_iter().unzip();
        if let Some(screen) = screen {
            let doubtful = (0..rows.len()).filter(|&place| !are_certain[place]).collect();
            self.again(rows, doubtful, &mut answers, screen)?;
        }
        let mut edges = vec![];
        for (&(row, _), hits) in rows.iter().zip(&answers) {
            let ranks = (0..).zip(hits.of_query(0));
            edges.extend(ranks.map(|(rank, hit)| Edge {
                row,
                other: hit.row as usize,
                rank,
                distance: hit.distance,
            }));
        }
        (self.take)(&edges)
    }

    /// Looks again for the neighbours of rows that are in doubt, as many duplicates are: among all that the library finds as near as the
    /// k-th of those that it named.
    fn again(
        &mut self,
        rows: &[(usize, Option<Named<'_>>)],
        mut doubtful: Vec<usize>,
        answers: &mut [Hits],
        screen: &Screen,
    ) -> Result<()> {
        let (all, k, dim) = (self.all, self.k, self.all.rows.dim());
        self.work.in_doubt += doubtful.len();
        // Those that are looked for together have about the same radius.
        doubtful.sort_unstable_by(|&a, &b| answers[a].threshold(0).total_cmp(&answers[b].threshold(0)));
        for some in doubtful.chunks(AGAIN_AT_ONCE) {
            all.check()?;
            let found = if Metric::OF_BITS.contains(&all.metric) {
                None
            } else {
                let farthest = some.iter().map(|&place| answers[place].threshold(0)).fold(f64::MIN, f64::max);
                let radius = reach(all.metric, dim, farthest.next_up(), screen.extent);
                let ids: Vec<u64> =
                    some.iter().filter_map(|&place| rows[place].1).map(|(_, id)| id as u64).collect();
                let search = || {
                    let vectors = screen.index.get(&ids)?;
                    let options = SearchOptions::within(radius);
                    screen.index.search_with(MatrixView::new(&vectors, dim)?, &options)
                };
                Some(all.interruptible(search).map_err(external)?.neighbors)
            };
            let near = |number: usize| found.as_ref().map(|found| found.row(number));
            let settled: Vec<Hits> = (some.par_iter().enumerate())
                .map(|(number, &place)| match near(number) {
                    Some(near) => of_near(all, k, rows[place].0, near, screen),
                    None => of_all(all, k, rows[place].0),
                })
                .collect();
            for (number, (&place, hits)) in some.iter().zip(settled).enumerate() {
                self.work.refined += near(number).map_or(all.rows.count(), <[Neighbor]>::len);
                answers[place] = hits;
            }
        }
        Ok(())
    }
}

/// Rows of a range for which the library names nothing, but which may have neighbours: not those that have no distance.
fn unnamed(rows: Range<usize>, screen: Option<&Screen>) -> impl Iterator<Item = usize> {
    rows.filter(move |row| screen.is_none_or(|screen| screen.others.binary_search(row).is_ok()))
}

/// Another row by its distance from a row, if it has one.
fn hit(all: &Comparison, row: usize, other: usize) -> Option<Hit> {
    let distance = all.rows.distance(all.metric, row, other).filter(|_| other != row)?;
    Some(Hit { distance, row: other as u64 })
}

/// The nearest of all others of a row.
fn of_all(all: &Comparison, k: usize, row: usize) -> Hits {
    let mut best = Hits::new(1, k);
    best.add(0, (0..all.rows.count()).filter_map(|other| hit(all, row, other)));
    best
}

/// The nearest others of a row among some of the library's and those that it does not take.
fn of_near(all: &Comparison, k: usize, row: usize, near: &[Neighbor], screen: &Screen) -> Hits {
    let mut best = Hits::new(1, k);
    let others = near.iter().map(|near| screen.place(near.id)).chain(screen.others.iter().copied());
    best.add(0, others.filter_map(|other| hit(all, row, other)));
    best
}

/// The nearest others of a row among those that the library named and those that it does not take, and whether no other can be nearer.
fn of_named(all: &Comparison, k: usize, row: usize, (named, id): Named<'_>, screen: &Screen) -> (Hits, bool) {
    let best = of_near(all, k, row, named, screen);
    let dim = all.rows.dim();
    let keeps_order = match all.metric {
        Metric::Hamming => true,
        Metric::Jaccard => 8 * dim <= APART,
        _ => false,
    };
    let are_enough = named.len() + 1 >= screen.places.len() || keeps_order && named.len() >= k;
    let bound =
        |last: &Neighbor| least(all.metric, dim, last.distance.into(), screen.moves[id], screen.extent);
    let is_certain = are_enough || named.last().is_some_and(|last| bound(last) > best.threshold(0));
    (best, is_certain)
}
