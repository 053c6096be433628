//! Borůvka's algorithm over rows of which the nearest neighbours are known.
//!
//! Every part of the forest joins another along its shortest edge, until one part is left. The graph of neighbours proves most of these edges
//! shortest: a row that is not among a row's neighbours is farther than all of them. Where the proof fails, rows of the part are searched for
//! among the rows of other parts. Parts are numbered, and rows of parts whose numbers differ in a bit lie on different sides of it: a search
//! for the rows of one side among those of the other, for each bit, finds the nearest row of any other part.
//!
//! Of edges of one length any is right: the lengths of all minimum spanning trees are the same.

use crate::bits::Bits;
use crate::engine::Allowed;
use crate::error::Result;
use crate::index::common::Common;
use crate::index::pairwise::forest::Forest;
use crate::index::pairwise::graph::{KnnGraph, PIECES};
use crate::index::pairwise::pairs::Pair;
use crate::interrupt;
use crate::kernels::{key_of, value_of};
use crate::memory;
use crate::options::SearchOptions;

/// An edge: the key of its length, and its rows, the smaller place first.
type Edge = (u32, u32, u32);

/// Longer than every edge.
const NONE: Edge = (u32::MAX, 0, 0);

/// Rows of other parts that a search looks for at first. One is enough but where the nearest are no core rows.
const REACH: usize = 4;

/// A forest that becomes a tree. Distances are kept as keys, which are in their order.
pub(super) struct Growth<'g> {
    graph: &'g KnnGraph,
    /// The places of the graph's hits.
    places: Vec<u32>,
    /// Hits of each row that lie in its own part, nearest first: they will always.
    passed: Vec<u32>,
    core: Vec<f32>,
    /// Edges of the row out of its part that are in neither `graph` nor `found` are this long at least.
    bound: Vec<u32>,
    /// The shortest edge that searches found.
    found: Vec<Edge>,
    forest: Forest,
    /// The first row of each row's part.
    part: Vec<u32>,
    /// The shortest known edge out of each part, at its first row.
    shortest: Vec<Edge>,
    edges: Vec<Pair>,
    reach: usize,
}

impl<'g> Growth<'g> {
    pub(super) fn new(graph: &'g KnnGraph, core: Vec<f32>) -> Result<Self> {
        let rows = graph.ids().len();
        let hits = graph.neighbors().hits();
        let places = memory::collect(hits.iter().map(|hit| graph.place_of(hit.id) as u32))?;
        let mut growth = Self {
            graph,
            places,
            passed: memory::filled(rows, 0)?,
            core,
            bound: memory::with_room(rows)?,
            found: memory::filled(rows, NONE)?,
            forest: Forest::new(rows)?,
            part: memory::filled(rows, 0)?,
            shortest: memory::filled(rows, NONE)?,
            edges: memory::with_room(rows)?,
            reach: REACH,
        };
        for row in 0..rows {
            let farthest = graph.neighbors().row(row).last().map(|hit| hit.distance);
            growth
                .bound
                .push(growth.beyond(row, farthest.filter(|_| graph.neighbors().row(row).len() < rows - 1)));
        }
        Ok(growth)
    }

    /// The least length of a row's edges to rows that are at least this far; of none at all without a distance.
    fn beyond(&self, row: usize, distance: Option<f32>) -> u32 {
        distance.map_or(u32::MAX, |distance| key_of(distance.max(self.core[row])))
    }

    fn edge(&self, a: u32, b: u32, distance: f32) -> Edge {
        let length = distance.max(self.core[a as usize]).max(self.core[b as usize]);
        (key_of(length), a.min(b), a.max(b))
    }

    /// The edges of the tree.
    pub(super) async fn grown(mut self, index: &Common) -> Result<Vec<Pair>> {
        let rows = self.part.len();
        while self.edges.len() < rows - 1 {
            interrupt::check()?;
            self.number_parts();
            let before = self.edges.len();
            self.find_shortest();
            self.join()?;
            if self.edges.len() == before {
                self.search(index).await?;
                self.join()?;
                self.reach = if self.edges.len() == before { self.reach.saturating_mul(4) } else { REACH };
            }
        }
        Ok(self.edges)
    }

    fn number_parts(&mut self) {
        (0..self.part.len()).for_each(|row| self.part[row] = self.forest.first(row as u32));
    }

    /// Finds the shortest known edge out of each part.
    fn find_shortest(&mut self) {
        self.shortest.fill(NONE);
        let offsets = self.graph.neighbors().offsets();
        for row in 0..self.part.len() {
            let part = self.part[row];
            let places = &self.places[offsets[row]..offsets[row + 1]];
            let hits = self.graph.neighbors().row(row);
            let is_inside = |&&place: &&u32| self.part[place as usize] == part;
            let passed = self.passed[row] as usize;
            let passed = passed + places[passed..].iter().take_while(is_inside).count();
            self.passed[row] = passed as u32;
            let mut shortest = self.shortest[part as usize];
            let (_, a, b) = self.found[row];
            if self.part[a as usize] == self.part[b as usize] {
                // Inside of the part by now.
                self.found[row] = NONE;
            }
            shortest = shortest.min(self.found[row]);
            for (&place, hit) in places.iter().zip(hits).skip(passed) {
                if key_of(hit.distance) > shortest.0 {
                    break;
                }
                if self.part[place as usize] != part {
                    shortest = shortest.min(self.edge(row as u32, place, hit.distance));
                }
            }
            self.shortest[part as usize] = shortest;
        }
    }

    /// Joins the parts whose shortest known edges are proven to be the shortest.
    fn join(&mut self) -> Result<()> {
        let mut bounds: Vec<u32> = memory::filled(self.part.len(), u32::MAX)?;
        for (&part, &bound) in self.part.iter().zip(&self.bound) {
            bounds[part as usize] = bounds[part as usize].min(bound);
        }
        for (&(length, a, b), bound) in self.shortest.iter().zip(bounds) {
            if (length, a, b) != NONE && length <= bound && self.forest.join(a, b) {
                let [a, b] = [a, b].map(|place| self.graph.ids()[place as usize]);
                self.edges.push(Pair { a, b, distance: value_of(length) });
            }
        }
        Ok(())
    }

    /// Searches for rows that may have shorter edges than their part's shortest. The largest part waits for others to join it.
    async fn search(&mut self, index: &Common) -> Result<()> {
        let (numbers, parts, largest) = self.numbers()?;
        let slots = index.store.slots_of(self.graph.ids())?;
        // Rows, and how long edges to rows that no search reached are at least.
        let mut waiting: Vec<(u32, u32)> = vec![];
        memory::reserve(&mut waiting, self.part.len())?;
        waiting.extend((0..self.part.len() as u32).map(|row| (row, u32::MAX)));
        waiting.retain(|&(row, _)| self.part[row as usize] != largest);
        for bit in 0..u32::BITS - (parts - 1).leading_zeros() {
            waiting.retain(|&(row, _)| {
                self.bound[row as usize] < self.shortest[self.part[row as usize] as usize].0
            });
            waiting.sort_by_key(|&(row, _)| numbers[row as usize] >> bit & 1);
            let middle = waiting.partition_point(|&(row, _)| numbers[row as usize] >> bit & 1 == 0);
            let (zeros, ones) = waiting.split_at_mut(middle);
            for (asking, side) in [(zeros, 1), (ones, 0)] {
                let mut others = Bits::zeros(index.store.rows.end() as usize)?;
                let on_side = slots.iter().zip(&numbers).filter(|&(_, number)| number >> bit & 1 == side);
                on_side.for_each(|(&slot, _)| others.set(slot as usize, true));
                let others = Allowed::new(others);
                for piece in asking.chunks_mut(PIECES * index.piece()) {
                    self.search_for(index, piece, &others).await?;
                }
            }
        }
        for (row, reached) in waiting {
            let row = row as usize;
            self.bound[row] = self.bound[row].max(reached.min(self.found[row].0));
        }
        Ok(())
    }

    /// The number of each row's part, how many parts there are, and the first row of the largest.
    fn numbers(&self) -> Result<(Vec<u32>, u32, u32)> {
        let mut sizes: Vec<u32> = memory::filled(self.part.len(), 0)?;
        let mut numbers: Vec<u32> = memory::with_room(self.part.len())?;
        let (mut parts, mut largest) = (0, 0);
        for (row, &part) in self.part.iter().enumerate() {
            // The first row of a part comes before its others.
            numbers.push(if part as usize == row { parts } else { numbers[part as usize] });
            parts += u32::from(part as usize == row);
            sizes[part as usize] += 1;
            if sizes[part as usize] > sizes[largest as usize] {
                largest = part;
            }
        }
        Ok((numbers, parts, largest))
    }

    /// Searches for rows among those of other parts.
    async fn search_for(&mut self, index: &Common, rows: &mut [(u32, u32)], others: &Allowed) -> Result<()> {
        interrupt::check()?;
        let ids = memory::collect(rows.iter().map(|&(row, _)| self.graph.ids()[row as usize]))?;
        let queries = index.copies(&ids).await?;
        let options = SearchOptions::new(self.reach);
        let found = index.search_among(&queries.vectors(), &options, None, Some(others)).await?.neighbors;
        for ((row, reached), hits) in rows.iter_mut().zip(&found) {
            let mut shortest = self.found[*row as usize];
            for hit in hits {
                shortest = shortest.min(self.edge(*row, self.graph.place_of(hit.id) as u32, hit.distance));
            }
            self.found[*row as usize] = shortest;
            let of_part = &mut self.shortest[self.part[*row as usize] as usize];
            *of_part = shortest.min(*of_part);
            let last = hits.last().map(|hit| hit.distance).filter(|_| (hits.len() as u64) < others.count);
            *reached = (*reached).min(self.beyond(*row as usize, last));
        }
        Ok(())
    }
}
