//! Every row of a table against every other: what the library compares, and the pairs within a radius.

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::vec::IntoIter;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use nearfield::{Device, Flat, MatrixView, Metric, PackedBits, SearchOptions, interruptible};
use rayon::prelude::*;

use crate::error::external;
use crate::metric::byte;
use crate::search::block::{Converted, LEAST_PAIRS, Work};
use crate::search::certificate::{Extent, Moved, reach};
use crate::search::queries::{Given, Queries};

/// Pairs that get their distances at a time.
pub(crate) const PAIRS_AT_ONCE: usize = 1 << 18;

/// Two rows, by their places among [`Comparison::rows`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    pub(crate) row: usize,
    pub(crate) other: usize,
    /// The place of the other among the neighbours of the row. A pair has none: 0.
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
    /// The memory of what is found before it is taken.
    pub(crate) reservation: MemoryReservation,
}

/// The rows that the library compares.
pub(crate) struct Screen {
    pub(crate) index: Flat,
    /// The place of each among all rows, ascending.
    pub(crate) places: Vec<usize>,
    /// How far conversion moved each.
    pub(crate) moves: Vec<Moved>,
    /// The places of rows that the library does not take, in ascending order. Rows without a distance are not among them.
    pub(crate) others: Vec<usize>,
    pub(crate) extent: Extent,
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
        for place in 0..all.rows.count() {
            // In the numbers that distances are computed from: f32 has bytes where f64 has none.
            let row: Option<Vec<u8>> = match all.rows.given(place) {
                Given::F32(row) => row.iter().map(|&x| byte(x.into())).collect(),
                Given::F64(row) => row.iter().map(|&x| byte(x)).collect(),
            };
            if let Some(row) = row {
                bytes.extend(row.into_iter().map(PackedBits));
                places.push(place);
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let index = || Flat::from_rows(&all.device, all.metric, MatrixView::new(&bytes, dim)?);
        let index = all.interruptible(index).map_err(external)?;
        let moves = vec![Moved { norm: 0.0, moved: 0.0 }; places.len()];
        Ok(Some(Self { index, places, moves, others: vec![], extent: Extent::default() }))
    }

    /// The place of a row of the library's among all.
    pub(crate) fn place(&self, id: u64) -> usize {
        self.places[id as usize]
    }
}

impl Comparison {
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
        self.reservation.try_grow(size_of_val(&late[..]))?;
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
    pub(crate) fn screen(&self) -> Result<Option<Screen>> {
        let count = self.rows.count();
        match count.saturating_mul(count) < LEAST_PAIRS {
            true => Ok(None),
            false if Metric::OF_BITS.contains(&self.metric) => Screen::of_bits(self),
            false => Screen::of_numbers(self),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(external(nearfield::Error::Interrupted)),
            false => Ok(()),
        }
    }

    pub(crate) fn interruptible<T>(&self, run: impl FnOnce() -> T) -> T {
        let stop = self.stop.clone();
        interruptible(move || !stop.load(Ordering::Relaxed), run)
    }

    /// Runs a visit of the library, whose function leaves what failed in it.
    pub(crate) fn visited(
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
}

/// Keeps the error of a function that the library calls, which then ends the call.
pub(crate) fn kept<T>(result: Result<T>, failed: &mut Option<DataFusionError>) -> nearfield::Result<T> {
    result.map_err(|error| {
        *failed = Some(error);
        nearfield::Error::Interrupted
    })
}

fn key(edge: &Edge) -> (usize, usize) {
    (edge.row, edge.other)
}

/// Adds to `found` the edges of `late` that come before its last edge. Both are in order.
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
