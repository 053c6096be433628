//! The neighbours of all rows of a graph, as they become known.

use crate::error::Result;
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};

/// The k neighbours of each row, `[rows, k]`.
pub(super) struct Table {
    hits: Vec<Neighbor>,
    k: usize,
}

impl Table {
    /// No rows yet, and memory for this many.
    pub(super) fn new(rows: usize, k: usize) -> Result<Self> {
        Ok(Self { hits: memory::with_room(rows * k)?, k })
    }

    /// Adds rows, whose neighbours are not known yet.
    pub(super) fn grow(&mut self, rows: usize) -> Result<()> {
        let hits = self.hits.len() + rows * self.k;
        memory::resize(&mut self.hits, hits, Neighbor { id: 0, distance: 0.0 })
    }

    /// Sets the neighbours of a row. Tells whether there were k of them.
    pub(super) fn put(&mut self, row: usize, found: impl Iterator<Item = (u32, u64)>) -> bool {
        let hits = found.map(|(key, id)| Neighbor { id, distance: value_of(key) });
        let places = self.hits[row * self.k..][..self.k].iter_mut();
        hits.zip(places).map(|(hit, place)| *place = hit).count() == self.k
    }

    pub(super) fn into_neighbors(self) -> Result<Neighbors> {
        let Self { hits, k } = self;
        let ranges = (0..hits.len() / k).map(|row| row * k..(row + 1) * k);
        Ok(Neighbors::of(hits, &memory::collect(ranges)?))
    }
}
