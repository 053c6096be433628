//! Every row of a table against every other: the nearest of each, and the pairs within a radius.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::vec::IntoIter;

use datafusion::common::{DataFusionError, Result};
use nearfield::{
    Device, Flat, MatrixView, Metric, Neighbor, Neighbors, PackedBits, SearchOptions, interruptible,
};
use rayon::prelude::*;

use crate::error::external;
use crate::search::block::{Converted, LEAST_PAIRS, MORE, Work};
use crate::search::certificate::{Extent, Moved, least, reach};
use crate::search::hits::{Hit, Hits};
use crate::search::queries::Queries;

/// Rows whose neighbours are put in order at a time.
const ROWS_AT_ONCE: usize = 2048;
/// Pairs that get their distances at a time.
const PAIRS_AT_ONCE: usize = 1 << 18;

/// Two rows, by their places among [`Comparison::rows`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    pub(crate) row: usize,
    pub(crate) other: usize,
    /// The place of the other among the neighbours of the row. Pairs have none: 0.
    pub(crate) rank: u64,
    pub(crate) distance: f64,
}

/// A function that takes the next edges.
pub(crate) type Take<'t> = &'t mut (dyn FnMut(&[Edge]) -> Result<()> + Send);

/// The rows of a table, to be compared with each other.
pub(crate) struct Comparison {
    pub(crate) rows: Arc<Queries>,
    pub(crate) metric: Metric,
    pub(crate) device: Device,
    /// Set when nobody waits for the answer any more.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The rows that the library compares.
struct Screen {
    index: Flat,
    /// The place of each among all rows.
    places: Vec<usize>,
    /// How far conversion moved each.
    moves: Vec<Moved>,
    /// The places of rows that the library does not take, in ascending order. Rows without a distance are not among them.
    others: Vec<usize>,
    extent: Extent,
}

impl Screen {
    /// Rows of numbers; none if the library takes none of them.
    fn of_numbers(all: &Comparison) -> Result<Option<Self>> {
        let converted = Converted::of_queries(&all.rows, all.metric)?;
        if converted.numbers.is_empty() {
            return Ok(None);
        }
        let index = || converted.index(&all.device, all.metric, all.rows.dim());
        let index = all.interruptible(index).map_err(external)?;
        let Converted { numbers: places, moves, others, extent, .. } = converted;
        Ok(Some(Self { index, places, moves, others, extent }))
    }

    /// Rows of bits, eight a byte; none if no row has bytes alone. Others have no distance.
    fn of_bits(all: &Comparison) -> Result<Option<Self>> {
        let dim = all.rows.dim();
        let (mut bytes, mut places): (Vec<PackedBits>, Vec<usize>) = (vec![], vec![]);
        for (place, row) in all.rows.to_f32().chunks_exact(dim.max(1)).enumerate() {
            if row.iter().all(|&x| x == f32::from(x as u8)) {
                bytes.extend(row.iter().map(|&x| PackedBits(x as u8)));
                places.push(place);
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let index = || {
            let mut index = Flat::builder(&all.device, all.metric, dim).build()?;
            index.add(MatrixView::new(&bytes, dim)?)?;
            Ok(index)
        };
        let index = all.interruptible(index).map_err(external)?;
        let moves = vec![Moved { norm: 0.0, moved: 0.0 }; places.len()];
        Ok(Some(Self { index, places, moves, others: vec![], extent: Extent::default() }))
    }

    /// The place of a row of the library's among all.
    fn place(&self, id: u64) -> usize {
        self.places[id as usize]
    }
}

impl Comparison {
    /// The k nearest others of each row, in the order of the rows, nearest first, ties by their order.
    pub(crate) fn nearest(&self, k: usize, take: Take<'_>) -> Result<Work> {
        let mut rows = NextRows { all: self, k, done: 0, work: Work::default(), take };
        let Some(screen) = self.screen()? else {
            rows.others_before(self.rows.count(), None)?;
            return Ok(rows.work);
        };
        let count = screen.places.len();
        rows.work.screened = count * (count - 1);
        let named = k.saturating_add(MORE).min(count);
        let options = SearchOptions::new(named);
        // The whole graph at once takes half the time of its rows one by one. It is held where the rows take more memory.
        if named * size_of::<Neighbor>() <= self.rows.dim() * size_of::<[f32; 3]>() {
            let graph = self.interruptible(|| screen.index.knn_graph_with(&options)).map_err(external)?;
            rows.named(graph.ids(), graph.neighbors(), &screen)?;
        } else {
            self.visited(|failed| {
                screen.index.visit_knn_graph(&options, &mut |ids, found| {
                    kept(rows.named(ids, &found, &screen), failed)
                })
            })?;
        }
        rows.others_before(self.rows.count(), Some(&screen))?;
        Ok(rows.work)
    }

    /// The pairs of rows that are nearer than a radius, each once, in the order of both rows.
    pub(crate) fn within(&self, radius: f64, take: Take<'_>) -> Result<Work> {
        let count = self.rows.count();
        let mut work = Work::default();
        let near = |row: usize, other: usize| {
            let distance = self.rows.distance(self.metric, row, other).filter(|&d| d < radius)?;
            Some(Edge { row: row.min(other), other: row.max(other), rank: 0, distance })
        };
        let Some(screen) = self.screen()? else {
            let most = (PAIRS_AT_ONCE / count.max(1)).max(1);
            for start in (0..count).step_by(most) {
                let rows = start..count.min(start + most);
                let of_row = |row| (row + 1..count).filter_map(move |other| near(row, other));
                self.check()?;
                take(&rows.into_par_iter().flat_map_iter(of_row).collect::<Vec<_>>())?;
            }
            work.refined = count * count.saturating_sub(1) / 2;
            return Ok(work);
        };
        let Screen { others, extent, places, .. } = &screen;
        let of_other = |row: &usize| {
            let row = *row;
            let is_first =
                move |other: &usize| *other != row && (*other > row || others.binary_search(other).is_err());
            (0..count).filter(is_first).filter_map(move |other| near(row, other))
        };
        let go_on = |_: &&usize| self.check().is_ok();
        let mut late: Vec<Edge> = others.par_iter().filter(go_on).flat_map_iter(of_other).collect();
        self.check()?;
        late.par_sort_unstable_by_key(key);
        let mut late = late.into_iter().peekable();
        work.screened = places.len() * (places.len() - 1) / 2;
        work.refined = others.len() * count;
        let options = SearchOptions::within(reach(self.metric, self.rows.dim(), radius, *extent));
        self.visited(|failed| {
            screen.index.visit_pairs(&options, &mut |pairs| {
                for pairs in pairs.chunks(PAIRS_AT_ONCE) {
                    work.refined += pairs.len();
                    let refined = |pair: &nearfield::Pair| near(screen.place(pair.a), screen.place(pair.b));
                    let found: Vec<Edge> = pairs.par_iter().filter_map(refined).collect();
                    kept(self.check().and_then(|()| take(&merged(found, &mut late))), failed)?;
                }
                Ok(())
            })
        })?;
        take(&late.collect::<Vec<_>>())?;
        Ok(work)
    }

    /// The rows for the library; none where it is not worth its while, or takes none of them.
    fn screen(&self) -> Result<Option<Screen>> {
        let count = self.rows.count();
        match count.saturating_mul(count) < LEAST_PAIRS {
            true => Ok(None),
            false if Metric::OF_BITS.contains(&self.metric) => Screen::of_bits(self),
            false => Screen::of_numbers(self),
        }
    }

    fn check(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(external(nearfield::Error::Interrupted)),
            false => Ok(()),
        }
    }

    fn interruptible<T>(&self, run: impl FnOnce() -> T) -> T {
        let stop = self.stop.clone();
        interruptible(move || !stop.load(Ordering::Relaxed), run)
    }

    /// Runs a visit of the library, whose function leaves what failed in it.
    fn visited(
        &self,
        visit: impl FnOnce(&mut Option<DataFusionError>) -> nearfield::Result<()>,
    ) -> Result<()> {
        let mut failed = None;
        let result = self.interruptible(|| visit(&mut failed));
        match failed {
            Some(error) => Err(error),
            None => result.map_err(external),
        }
    }

    /// The nearest others of a row, and whether what the library named left a doubt.
    fn nearest_of(&self, row: usize, k: usize, named: Option<(&[Neighbor], usize, &Screen)>) -> (Hits, bool) {
        let hit = |other: usize| {
            let distance = self.rows.distance(self.metric, row, other).filter(|_| other != row)?;
            Some(Hit { distance, row: other as u64 })
        };
        if let Some((named, id, screen)) = named {
            let Screen { places, moves, others, extent, .. } = screen;
            let mut best = Hits::new(1, k);
            best.add(0, named.iter().filter_map(|named| hit(screen.place(named.id))));
            let bound = |last: &Neighbor| {
                least(self.metric, self.rows.dim(), last.distance.into(), moves[id], *extent)
            };
            let are_all = named.len() + 1 >= places.len();
            if are_all || named.last().is_some_and(|last| bound(last) > best.threshold(0)) {
                best.add(0, others.iter().filter_map(|&other| hit(other)));
                return (best, false);
            }
        }
        let mut best = Hits::new(1, k);
        best.add(0, (0..self.rows.count()).filter_map(hit));
        (best, named.is_some())
    }
}

/// Keeps the error of a function that the library calls, which then ends the call.
fn kept<T>(result: Result<T>, failed: &mut Option<DataFusionError>) -> nearfield::Result<T> {
    result.map_err(|error| {
        *failed = Some(error);
        nearfield::Error::Interrupted
    })
}

fn key(edge: &Edge) -> (usize, usize) {
    (edge.row, edge.other)
}

/// Edges with those of `late` that come before their last. Both are in order.
fn merged(found: Vec<Edge>, late: &mut Peekable<IntoIter<Edge>>) -> Vec<Edge> {
    if late.peek().is_none() {
        return found;
    }
    let mut all = Vec::with_capacity(found.len());
    for edge in found {
        while let Some(earlier) = late.next_if(|other| key(other) < key(&edge)) {
            all.push(earlier);
        }
        all.push(edge);
    }
    all
}

/// The answer of [`Comparison::nearest`], row by row.
struct NextRows<'a> {
    all: &'a Comparison,
    k: usize,
    /// The rows before this place are answered.
    done: usize,
    work: Work,
    take: Take<'a>,
}

/// A row, and what the library named for it, with its place in the library.
type Row<'n> = (usize, Option<(&'n [Neighbor], usize)>);

impl NextRows<'_> {
    /// Takes what the library named for the next of its rows.
    fn named(&mut self, ids: &[u64], found: &Neighbors, screen: &Screen) -> Result<()> {
        for start in (0..ids.len()).step_by(ROWS_AT_ONCE) {
            let places = start..ids.len().min(start + ROWS_AT_ONCE);
            let mut rows: Vec<Row<'_>> = vec![];
            for place in places {
                let row = screen.place(ids[place]);
                rows.extend(unnamed(self.done..row, Some(screen)));
                rows.push((row, Some((found.row(place), ids[place] as usize))));
                self.done = row + 1;
            }
            self.answer(&rows, Some(screen))?;
        }
        Ok(())
    }

    /// The rows before a place that the library does not take.
    fn others_before(&mut self, end: usize, screen: Option<&Screen>) -> Result<()> {
        let rows: Vec<Row<'_>> = unnamed(self.done..end, screen).collect();
        rows.chunks(ROWS_AT_ONCE).try_for_each(|rows| self.answer(rows, screen))
    }

    fn answer(&mut self, rows: &[Row<'_>], screen: Option<&Screen>) -> Result<()> {
        let (all, k) = (self.all, self.k);
        let of_row = |&(row, named): &Row<'_>| {
            all.check()?;
            let named = named.zip(screen).map(|((named, id), screen)| (named, id, screen));
            Ok::<_, DataFusionError>(all.nearest_of(row, k, named))
        };
        let answers = rows.par_iter().map(of_row).collect::<Result<Vec<_>>>()?;
        let mut edges = vec![];
        for (&(row, named), (hits, in_doubt)) in rows.iter().zip(&answers) {
            let compared = if *in_doubt { all.rows.count() } else { 0 };
            self.work.refined += compared + named.map_or(all.rows.count(), |(named, _)| named.len());
            self.work.in_doubt += usize::from(*in_doubt);
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
}

/// Rows of a range for which the library names nothing, but which may have neighbours: not those that have no distance.
fn unnamed<'n>(rows: Range<usize>, screen: Option<&Screen>) -> impl Iterator<Item = Row<'n>> {
    let is_other = move |row: &usize| screen.is_none_or(|screen| screen.others.binary_search(row).is_ok());
    rows.filter(is_other).map(|row| (row, None))
}
