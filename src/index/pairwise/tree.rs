//! The minimum spanning tree of all rows under mutual reachability: what HDBSCAN and single linkage start from.

use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Common;
use crate::index::pairwise::boruvka::{Growth, Ways};
use crate::index::pairwise::forest::Forest;
use crate::index::pairwise::graph::{KnnGraph, among, knn_graph, place_among};
use crate::index::pairwise::pairs::Pair;
use crate::memory;
use crate::options::SearchOptions;

/// Neighbours of each row that the tree starts from. More of them take longer to find, and leave fewer rows to be searched for again.
const NEIGHBORS: usize = 16;

/// A tree that connects all rows of an index with the smallest sum of distances: [`Flat::spanning_tree`](crate::Flat::spanning_tree).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpanningTree {
    ids: Vec<u64>,
    edges: Vec<Pair>,
}

/// Two clusters of single linkage that become one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Merge {
    /// The two clusters, the smaller number first: below the number of rows the place of a row among [`SpanningTree::ids`], from there on
    /// the cluster of the merge with this number less the number of rows.
    pub clusters: [u32; 2],
    /// The distance at which they merge.
    pub distance: f32,
    /// Rows of both.
    pub rows: u32,
}

impl SpanningTree {
    /// The rows, by ascending id.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The edges, one less than rows, by ascending mutual reachability distance, ties by both ids.
    pub fn edges(&self) -> &[Pair] {
        &self.edges
    }

    /// The merges of single linkage, nearest first: rows of a linkage matrix as SciPy and hdbscan have it.
    ///
    /// # Errors
    /// [`Error::Argument`] for more than 2^31 rows; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use nearfield::{Device, Flat, Metric};
    /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [1.0], [9.0], [11.0]])?;
    /// let merges = index.spanning_tree(1)?.merges()?;
    /// let clusters: Vec<[u32; 2]> = merges.iter().map(|merge| merge.clusters).collect();
    /// assert_eq!(clusters, [[0, 1], [2, 3], [4, 5]]);
    /// assert_eq!((merges[2].distance, merges[2].rows), (8.0, 4));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn merges(&self) -> Result<Vec<Merge>> {
        let rows = self.ids.len();
        if rows > 1 << 31 {
            return Err(Error::argument(
                "rows",
                "up to 2^31, so that clusters have numbers of 32 bits",
                rows,
            ));
        }
        let mut groups = Forest::new(rows)?;
        // The number of each group's cluster and its rows, at the group's first row.
        let mut of_first = memory::collect((0..rows as u32).map(|row| (row, 1)))?;
        let mut merges = memory::with_room(self.edges.len())?;
        for (edge, number) in self.edges.iter().zip(rows as u32..) {
            let [a, b] = [edge.a, edge.b].map(|id| groups.first(place_among(&self.ids, id) as u32));
            let [(one, rows), (other, more)] = [a, b].map(|first| of_first[first as usize]);
            let (clusters, rows) = ([one.min(other), one.max(other)], rows + more);
            groups.join(a, b);
            of_first[a.min(b) as usize] = (number, rows);
            merges.push(Merge { clusters, distance: edge.distance, rows });
        }
        Ok(merges)
    }
}

impl KnnGraph {
    /// How far the k-th neighbour of each row is, in the order of [`ids`](Self::ids): HDBSCAN's core distances.
    ///
    /// # Errors
    /// [`Error::Argument`] for a k of 0, or of more neighbours than each row has.
    pub fn core_distances(&self, k: usize) -> Result<Vec<f32>> {
        let least = self.neighbors().iter().map(<[_]>::len).min().unwrap_or(k);
        if k == 0 || k > least {
            let needed = match least {
                0 => "a graph in which every row has neighbours".into(),
                _ => format!("1 to {least}, the neighbours of every row"),
            };
            return Err(Error::argument("k", needed, k));
        }
        memory::collect(self.neighbors().iter().map(|hits| hits[k - 1].distance))
    }
}

/// Checks that options ask for nothing that a tree does not have.
fn check(options: &SearchOptions<'_>) -> Result<()> {
    let given = [
        ("radius", options.radius.map(|radius| radius.to_string())),
        ("probes", options.probes.map(|probes| probes.to_string())),
        ("recall", options.recall.map(|recall| recall.to_string())),
    ];
    match given.into_iter().find_map(|(name, given)| Some((name, given?))) {
        Some((name, given)) => Err(Error::argument(name, "none: the tree is of all rows, and exact", given)),
        None => Ok(()),
    }
}

impl Common {
    pub(crate) fn spanning_tree<'f>(&'f self, options: &'f SearchOptions<'_>) -> Boxed<'f, SpanningTree> {
        Box::pin(async move {
            check(options)?;
            self.check_options(options)?;
            let rows = self.rows_of(options)?;
            if rows.len() < 2 {
                return Ok(SpanningTree { ids: rows, edges: vec![] });
            }
            if options.k >= rows.len() {
                let needed = format!("1 to {}: each row has as many others", rows.len() - 1);
                return Err(Error::argument("k", needed, options.k));
            }
            let among = among(&rows, options);
            let wide = SearchOptions { k: options.k.max(NEIGHBORS), ..among };
            let graph = knn_graph(self, &wide).await?;
            let core = graph.core_distances(options.k)?;
            let mut edges = Growth::new(&graph, core, Ways::default())?.grown(self).await?;
            edges
                .sort_unstable_by(|x, y| x.distance.total_cmp(&y.distance).then((x.a, x.b).cmp(&(y.a, y.b))));
            Ok(SpanningTree { ids: rows, edges })
        })
    }
}
