//! A graph as a sparse matrix.

use crate::error::Result;
use crate::index::pairwise::graph::KnnGraph;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};

/// Which edges a sparse matrix of a graph has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Symmetry {
    /// From each row to its neighbours.
    #[default]
    Directed,
    /// Both ways wherever one of two rows is a neighbour of the other.
    Union,
    /// Both ways where each of two rows is a neighbour of the other.
    Intersection,
}

/// A sparse matrix `[rows, rows]` in the form CSR, of distances. Rows and columns are places among [`KnnGraph::ids`].
///
/// The entries of row `r` are `indices[indptr[r]..indptr[r + 1]]`, with their distances in the same places of `data`, nearest first. A distance
/// of 0 is an entry: duplicates are neighbours.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Csr {
    /// Where the entries of each row start, and where the last end, `[rows + 1]`.
    pub indptr: Vec<u64>,
    /// The column of each entry.
    pub indices: Vec<u32>,
    /// The distance of each entry.
    pub data: Vec<f32>,
}

impl KnnGraph {
    /// The graph as a sparse matrix.
    ///
    /// Both directions of an edge have one distance. Where two devices computed them and differ in the last bit, it is the smaller.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// ```
    /// use nearfield::{Device, Flat, Metric, Symmetry};
    /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [1.0], [3.0]])?;
    /// let graph = index.knn_graph(1)?;
    /// let nearest = graph.to_csr(Symmetry::Directed)?;
    /// assert_eq!((nearest.indptr, nearest.indices), (vec![0, 1, 2, 3], vec![1, 0, 1]));
    /// let either = graph.to_csr(Symmetry::Union)?;
    /// assert_eq!((either.indptr, either.indices), (vec![0, 1, 3, 4], vec![1, 0, 2, 1]));
    /// let both = graph.to_csr(Symmetry::Intersection)?;
    /// assert_eq!((both.indptr, both.data), (vec![0, 1, 2, 2], vec![1.0, 1.0]));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn to_csr(&self, symmetry: Symmetry) -> Result<Csr> {
        match symmetry {
            Symmetry::Directed => self.csr_of(self.neighbors()),
            _ => self.csr_of(&self.symmetric(symmetry)?),
        }
    }

    /// The neighbours of each row in both directions.
    fn symmetric(&self, symmetry: Symmetry) -> Result<Neighbors> {
        let rows = self.ids().len();
        // Edges towards each row, in the order of the rows that they come from.
        let mut starts: Vec<usize> = memory::filled(rows + 1, 0)?;
        let places = memory::collect(self.neighbors().hits().iter().map(|hit| self.place_of(hit.id)))?;
        places.iter().for_each(|&place| starts[place + 1] += 1);
        (0..rows).for_each(|row| starts[row + 1] += starts[row]);
        let mut next = memory::copied(&starts)?;
        let mut towards = memory::filled(places.len(), Neighbor { id: 0, distance: 0.0 })?;
        let mut edge = 0;
        for (row, hits) in self.neighbors().iter().enumerate() {
            for hit in hits {
                let place = places[edge];
                towards[next[place]] = Neighbor { id: self.ids()[row], distance: hit.distance };
                next[place] += 1;
                edge += 1;
            }
        }
        let most = if symmetry == Symmetry::Union { 2 * places.len() } else { places.len() };
        let mut both = Neighbors::with_room(rows, most)?;
        let mut edges: Vec<Neighbor> = vec![];
        for (row, hits) in self.neighbors().iter().enumerate() {
            let towards = &towards[starts[row]..starts[row + 1]];
            edges.clear();
            memory::reserve(&mut edges, hits.len() + towards.len())?;
            edges.extend(hits.iter().chain(towards));
            edges.sort_unstable_by(|a, b| a.id.cmp(&b.id).then(a.distance.total_cmp(&b.distance)));
            // The first of both is the nearer one.
            let mut kept = 0;
            let mut start = 0;
            while start < edges.len() {
                let same = edges[start..].iter().take_while(|edge| edge.id == edges[start].id).count();
                if symmetry == Symmetry::Union || same == 2 {
                    edges[kept] = edges[start];
                    kept += 1;
                }
                start += same;
            }
            edges.truncate(kept);
            edges.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
            both.push_row(edges.iter().copied());
        }
        Ok(both)
    }

    fn csr_of(&self, neighbors: &Neighbors) -> Result<Csr> {
        let hits = neighbors.hits();
        Ok(Csr {
            indptr: memory::collect(neighbors.offsets().iter().map(|&offset| offset as u64))?,
            indices: memory::collect(hits.iter().map(|hit| self.place_of(hit.id) as u32))?,
            data: memory::collect(hits.iter().map(|hit| hit.distance))?,
        })
    }
}
