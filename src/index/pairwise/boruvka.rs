//! Borůvka's algorithm over rows of which the nearest neighbours are known.
//!
//! Every part of the forest joins another along its shortest edge, until one part is left. The graph of neighbours proves most of these edges
//! shortest: a row that is not among a row's neighbours is farther than all of them. Where the proof fails, rows of the part are searched for.
//! Those of small parts find rows of other parts behind those of their own. Those of a part that has many are searched for among all rows but its
//! own. The other parts are numbered, and rows of parts whose numbers differ in a bit lie on different sides of it: a search for the rows of one
//! side among those of the other, for each bit, finds the nearest row of any other part.
//!
//! Of edges of one length any is right: the lengths of all minimum spanning trees are the same.

use crate::bits::Bits;
use crate::engine::Allowed;
use crate::error::Result;
use crate::index::common::Common;
use crate::index::pairwise::forest::Forest;
use crate::index::pairwise::graph::KnnGraph;
use crate::index::pairwise::pairs::Pair;
use crate::interrupt;
use crate::kernels::{key_of, value_of};
use crate::memory;
use crate::options::SearchOptions;

/// An edge: the key of its length, and its rows, the smaller place first.
type Edge = (u32, u32, u32);

/// Longer than every edge.
const NONE: Edge = (u32::MAX, 0, 0);

/// How rows are searched for.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    /// Rows of a part up to which a search for one of them finds rows of other parts behind all of its own.
    pub(super) small: u32,
    /// Waiting rows of a part from which on it gets a search of its own, among all rows of other parts.
    pub(super) many: u32,
    /// Rows of other parts that a search looks for at first. One is enough unless the nearest have large core distances.
    pub(super) reach: usize,
}

impl Default for Ways {
    fn default() -> Self {
        Self { small: 128, many: 256, reach: 4 }
    }
}

/// A row that is searched for.
struct Waiting {
    row: u32,
    part: u32,
    /// The least length of its edges that no search found.
    reached: u32,
}

/// A forest that becomes a tree. Distances are kept as keys, which are in their order.
pub(super) struct Growth<'g> {
    graph: &'g KnnGraph,
    /// The places of the graph's hits.
    places: Vec<u32>,
    /// Hits of each row that lie in its own part, nearest first. Such hits stay there.
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
    ways: Ways,
    /// Rows of other parts that the next search looks for.
    reach: usize,
}

impl<'g> Growth<'g> {
    pub(super) fn new(graph: &'g KnnGraph, core: Vec<f32>, ways: Ways) -> Result<Self> {
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
            ways,
            reach: ways.reach,
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
                let is_stuck = self.edges.len() == before;
                self.reach = if is_stuck { self.reach.saturating_mul(4) } else { self.ways.reach };
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
        let slots = index.store.slots_of(self.graph.ids())?;
        let mut sizes: Vec<u32> = memory::filled(self.part.len(), 0)?;
        self.part.iter().for_each(|&part| sizes[part as usize] += 1);
        let largest = (0..).zip(&sizes).max_by_key(|&(_, size)| size).map_or(0, |(part, _)| part);
        let ([mut small, mut few, mut many], limit) = self.waiting(&sizes, largest)?;
        let others = |growth: &Self, is_other: &dyn Fn(usize) -> bool| -> Result<Bits> {
            let mut others = Bits::zeros(index.store.rows.end() as usize)?;
            let rows = (0..slots.len()).filter(|&row| key_of(growth.core[row]) < limit && is_other(row));
            rows.for_each(|row| others.set(slots[row] as usize, true));
            Ok(others)
        };
        let all = others(self, &|_| true)?;
        if let Some(widest) = small.iter().map(|one| sizes[one.part as usize] as usize).max() {
            let all = Allowed::new(all.copied()?);
            self.search_for(index, &mut small, &all, widest.saturating_add(self.reach)).await?;
        }
        let mut by_part = memory::collect(if many.is_empty() { 0..0 } else { 0..self.part.len() as u32 })?;
        by_part.sort_unstable_by_key(|&row| (self.part[row as usize], row));
        for asking in many.chunk_by_mut(|a, b| a.part == b.part) {
            let (part, mut others) = (asking[0].part, all.copied()?);
            let first = by_part.partition_point(|&row| self.part[row as usize] < part);
            let own = by_part[first..][..sizes[part as usize] as usize].iter();
            own.for_each(|&row| others.set(slots[row as usize] as usize, false));
            self.search_for(index, asking, &Allowed::new(others), self.reach).await?;
        }
        let (numbers, parts) = self.numbers(&few)?;
        for bit in 0..u32::BITS - parts.leading_zeros() {
            let side = |row: usize| numbers[row] >> bit & 1;
            few.retain(|one| self.may_improve(one.row));
            few.sort_unstable_by_key(|one| (side(one.row as usize), one.row));
            let middle = few.partition_point(|one| side(one.row as usize) == 0);
            let (zeros, ones) = few.split_at_mut(middle);
            for (asking, other) in [(zeros, 1), (ones, 0)] {
                if !asking.is_empty() {
                    let others = Allowed::new(others(self, &|row| side(row) == other)?);
                    self.search_for(index, asking, &others, self.reach).await?;
                }
            }
        }
        for one in small.into_iter().chain(many).chain(few) {
            let row = one.row as usize;
            self.bound[row] = self.bound[row].max(one.reached.min(self.found[row].0));
        }
        Ok(())
    }

    /// The rows to search for, as three lists: rows of small parts, rows of parts that have few waiting rows, and the others, part by part. Also gives
    /// a limit: an edge to a row whose core distance reaches it improves nothing.
    fn waiting(&self, sizes: &[u32], largest: u32) -> Result<([Vec<Waiting>; 3], u32)> {
        let mut rows: Vec<u32> = memory::with_room(self.part.len())?;
        rows.extend((0..self.part.len() as u32).filter(|&row| self.part[row as usize] != largest));
        rows.retain(|&row| self.may_improve(row));
        let limit = rows.iter().map(|&row| self.shortest_of(row).0).max().unwrap_or(0);
        let mut of_part: Vec<u32> = memory::filled(self.part.len(), 0)?;
        rows.iter().for_each(|&row| of_part[self.part[row as usize] as usize] += 1);
        let waiting =
            rows.into_iter().map(|row| Waiting { row, part: self.part[row as usize], reached: limit });
        let mut waiting = memory::collect(waiting)?;
        let kind = |one: &Waiting| match one.part as usize {
            part if sizes[part] <= self.ways.small => 0,
            part if of_part[part] < self.ways.many => 1,
            _ => 2,
        };
        waiting.sort_unstable_by_key(|one| (kind(one), one.part, one.row));
        let many = waiting.split_off(waiting.partition_point(|one| kind(one) < 2));
        let few = waiting.split_off(waiting.partition_point(|one| kind(one) < 1));
        Ok(([waiting, few, many], limit))
    }

    fn shortest_of(&self, row: u32) -> Edge {
        self.shortest[self.part[row as usize] as usize]
    }

    /// Whether an edge of the row that is not known may be shorter than its part's shortest.
    fn may_improve(&self, row: u32) -> bool {
        self.bound[row as usize] < self.shortest_of(row).0
    }

    /// Numbers the parts of some rows from 1. Gives the number of each row's part, 0 for all other parts, and how many have one.
    fn numbers(&self, rows: &[Waiting]) -> Result<(Vec<u32>, u32)> {
        let mut of_part: Vec<u32> = memory::filled(self.part.len(), 0)?;
        let mut parts = 0;
        for one in rows {
            let number = &mut of_part[one.part as usize];
            if *number == 0 {
                parts += 1;
                *number = parts;
            }
        }
        Ok((memory::collect(self.part.iter().map(|&part| of_part[part as usize]))?, parts))
    }

    /// Searches for the k nearest rows of some rows, those of their own parts among them if `others` has these.
    async fn search_for(
        &mut self,
        index: &Common,
        rows: &mut [Waiting],
        others: &Allowed,
        k: usize,
    ) -> Result<()> {
        for rows in rows.chunks_mut(index.rows_at_once()) {
            interrupt::check()?;
            let ids = memory::collect(rows.iter().map(|one| self.graph.ids()[one.row as usize]))?;
            let queries = index.copies(&ids).await?;
            let options = SearchOptions::new(k);
            let found = index.search_among(&queries.vectors(), &options, None, Some(others)).await?.neighbors;
            for (one, hits) in rows.iter_mut().zip(&found) {
                let mut shortest = self.found[one.row as usize];
                for hit in hits {
                    let place = self.graph.place_of(hit.id) as u32;
                    if self.part[place as usize] != one.part {
                        shortest = shortest.min(self.edge(one.row, place, hit.distance));
                    }
                }
                self.found[one.row as usize] = shortest;
                let of_part = &mut self.shortest[one.part as usize];
                *of_part = shortest.min(*of_part);
                let last = hits.last().map(|hit| hit.distance).filter(|_| (hits.len() as u64) < others.count);
                one.reached = one.reached.min(self.beyond(one.row as usize, last));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Flat, MatrixView, Metric};
    use nearfield_testing::{Random, spanning_lengths};

    #[test]
    fn every_way_to_search_finds_the_shortest_edges() -> Result<()> {
        let mut random = Random::new(7);
        for case in 0..300 {
            let rows = 6 + random.below(60);
            // Few places, so that rows tie and are the same, in groups far from each other.
            let values: Vec<f32> = (0..rows)
                .flat_map(|_| [(100 * random.below(4) + random.below(9)) as f32, random.below(9) as f32])
                .collect();
            let index = Flat::from_rows(&Device::host(), Metric::L2, MatrixView::new(&values, 2)?)?;
            let all = index.knn_graph(rows)?;
            let k = 1 + random.below(5);
            let core = all.core_distances(k)?;
            let mut far = vec![vec![f32::INFINITY; rows]; rows];
            for (row, hits) in all.neighbors().iter().enumerate() {
                hits.iter().for_each(|hit| {
                    let other = hit.id as usize;
                    far[row][other] = hit.distance.max(core[row]).max(core[other]);
                });
            }
            let graph = index.knn_graph(k)?;
            let (none, any) = (0, u32::MAX);
            // Small parts alone, parts one by one, bits alone, and all of them.
            for (small, many) in [(any, any), (none, 1), (none, any), (4, 6)] {
                let growth = Growth::new(&graph, core.clone(), Ways { small, many, reach: 1 })?;
                let edges = pollster::block_on(growth.grown(index.common()))?;
                let mut found: Vec<f32> = edges.iter().map(|edge| edge.distance).collect();
                found.sort_unstable_by(f32::total_cmp);
                assert_eq!(found, spanning_lengths(&far), "case {case}, k {k}, ways {small} {many}");
            }
        }
        Ok(())
    }
}
