//! The methods of every row against every row, written once for every kind of index.

/// Writes the methods, over `common` and `boxed_search`. `$is_exact` tells whether a search without probes goes through all rows.
macro_rules! pairwise_methods {
    ($Index:ident, $self:ident => $is_exact:expr) => {
        impl $crate::index::pairwise::graph::Searched for $Index {
            fn common(&self) -> &Common {
                self.common()
            }

            fn is_exact(&$self) -> bool {
                $is_exact
            }

            fn searched<'s>(
                &'s self,
                queries: Vectors<'s>,
                options: &'s SearchOptions<'_>,
            ) -> Boxed<'s, SearchResult> {
                self.boxed_search(queries, options)
            }
        }

        impl $Index {
            crate::future::blocking_and_async! { self.common().device;
                /// The k nearest other rows of every row. A row is left out by its place, not by its distance: duplicates of it are
                /// neighbours. An [`Ivf`](crate::Ivf) finds those in the [`default_probes`](crate::Ivf::default_probes) lists that are
                /// nearest to each row.
                ///
                /// UMAP, t-SNE and clustering begin with this graph.
                ///
                /// # Errors
                /// As [`knn_graph_with`](Self::knn_graph_with).
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [0.0], [5.0], [7.0]])?;
                /// let graph = index.knn_graph(2)?;
                /// let nearest: Vec<u64> = graph.neighbors().iter().map(|row| row[0].id).collect();
                /// assert_eq!(nearest, [1, 0, 3, 2]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn knn_graph(&self, k: usize) -> Result<$crate::KnnGraph> {
                    $crate::index::pairwise::graph::knn_graph(self, &SearchOptions::new(k))
                }
                async knn_graph_async;

                /// [`knn_graph`](Self::knn_graph) with options: k, or a radius within which all rows are neighbours; the rows that are compared
                /// (a filter); the lists that an [`Ivf`](crate::Ivf) probes, or the recall that it is to have; progress in rows.
                ///
                /// # Errors
                /// As [`search_with`](Self::search_with); [`Error::Argument`] for a profile.
                pub fn knn_graph_with(&self, options: &SearchOptions<'_>) -> Result<$crate::KnnGraph> {
                    $crate::index::pairwise::graph::knn_graph(self, options)
                }
                async knn_graph_with_async;

                /// Calls `take` with the rows of the graph piece by piece, by ascending id, and the neighbours of each: for a graph that is
                /// larger than memory. An error of `take` ends it. Every row is searched for by itself, which takes up to twice as long as
                /// [`knn_graph_with`](Self::knn_graph_with).
                ///
                /// # Errors
                /// As [`knn_graph_with`](Self::knn_graph_with), and those of `take`.
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric, SearchOptions};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [1.0], [5.0]])?;
                /// let mut edges = 0;
                /// index.visit_knn_graph(&SearchOptions::new(2), &mut |ids, neighbors| {
                ///     assert_eq!(ids.len(), neighbors.queries());
                ///     edges += neighbors.hits().len();
                ///     Ok(())
                /// })?;
                /// assert_eq!(edges, 6);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn visit_knn_graph(
                    &self,
                    options: &SearchOptions<'_>,
                    take: &mut (dyn FnMut(&[u64], Neighbors) -> Result<()> + Send),
                ) -> Result<()> {
                    $crate::index::pairwise::graph::visit_knn_graph(self, options, take)
                }
                async visit_knn_graph_async;

                /// All pairs of rows whose distance is below a radius, each once: `a` is below `b`, and pairs are in the order of both.
                /// An [`Ivf`](crate::Ivf) goes through all rows.
                ///
                /// # Errors
                /// As [`visit_pairs`](Self::visit_pairs).
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric, Pair};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [4.0], [0.5]])?;
                /// assert_eq!(index.pairs_within(1.0)?, [Pair { a: 0, b: 2, distance: 0.5 }]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn pairs_within(&self, radius: f32) -> Result<Vec<$crate::Pair>> {
                    self.common().pairs_within(radius)
                }
                async pairs_within_async;

                /// How many pairs of rows have a distance below a radius. No more of them are in memory than a search finds at a time.
                ///
                /// # Errors
                /// As [`visit_pairs`](Self::visit_pairs).
                pub fn count_pairs_within(&self, radius: f32) -> Result<u64> {
                    self.common().count_pairs(radius)
                }
                async count_pairs_within_async;

                /// Calls `take` with all pairs of rows within [`SearchOptions::within`], some at a time, in the order of
                /// [`pairs_within`](Self::pairs_within). A filter restricts both rows of a pair. An error of `take` ends it.
                ///
                /// Memory holds the pairs of some rows with those behind them. How many rows, follows from how many pairs the rows before
                /// had: some four million pairs at a time, more only where rows suddenly have many.
                ///
                /// # Errors
                /// [`Error::Argument`] without a radius, for a radius that is NaN, beside a k and for probes; [`Error::Budget`];
                /// [`Error::OutOfMemory`]; [`Error::DeviceLost`]; those of `take`.
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric, SearchOptions};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [1.0], [1.5], [9.0]])?;
                /// index.visit_pairs(&SearchOptions::within(1.2), &mut |pairs| {
                ///     pairs.iter().for_each(|pair| println!("{} {} {}", pair.a, pair.b, pair.distance));
                ///     Ok(())
                /// })?;
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn visit_pairs(
                    &self,
                    options: &SearchOptions<'_>,
                    take: &mut (dyn FnMut(&[$crate::Pair]) -> Result<()> + Send),
                ) -> Result<()> {
                    self.common().visit_pairs(options, take)
                }
                async visit_pairs_async;

                /// The rows that lie within a threshold of each other: their groups, which rows to keep, and why the others go. Nothing is
                /// removed: [`remove`](Self::remove) takes the ids.
                ///
                /// # Errors
                /// As [`visit_pairs`](Self::visit_pairs); [`Error::Argument`], [`Error::UnknownId`] and [`Error::DuplicateId`] for an order
                /// that is not one of the rows that are compared.
                ///
                /// ```
                /// use nearfield::{Device, DuplicateOptions, Flat, Metric};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [9.0], [0.1]])?;
                /// let found = index.duplicates(&DuplicateOptions::new(0.5))?;
                /// assert_eq!((&found.kept[..], &found.groups[..]), (&[0, 1][..], &[vec![0, 2]][..]));
                /// assert_eq!((found.removed[0].id, found.removed[0].near), (2, 0));
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn duplicates(&self, options: &$crate::DuplicateOptions<'_>) -> Result<$crate::Duplicates> {
                    self.common().duplicates(options)
                }
                async duplicates_async;

                /// The minimum spanning tree of all rows under the mutual reachability distance of HDBSCAN: the largest of the distance of two
                /// rows and their core distances, which are the distances of their k-th nearest other rows. With k = 1 it is the distance
                /// itself, and the tree is that of single linkage. `min_samples` of the package hdbscan is k; that of scikit-learn is k + 1,
                /// because it counts the row itself.
                ///
                /// [`SpanningTree::merges`](crate::SpanningTree::merges) gives the hierarchy that clusters are cut from. The tree is exact: its edges
                /// are as long as those of any minimum spanning tree, in which edges of one length may connect other rows. An
                /// [`Ivf`](crate::Ivf) goes through all rows. Algorithm: Borůvka's, over the graph of nearest neighbours and searches among the rows
                /// of other parts where it does not suffice. Memory holds that graph, of the larger of k and 16 neighbours a row, with 20 bytes each.
                ///
                /// # Errors
                /// As [`spanning_tree_with`](Self::spanning_tree_with).
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [7.0], [1.0], [3.0]])?;
                /// let tree = index.spanning_tree(1)?;
                /// let edges: Vec<_> = tree.edges().iter().map(|edge| (edge.a, edge.b, edge.distance)).collect();
                /// assert_eq!(edges, [(0, 2, 1.0), (2, 3, 2.0), (1, 3, 4.0)]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn spanning_tree(&self, k: usize) -> Result<$crate::SpanningTree> {
                    self.common().spanning_tree(&SearchOptions::new(k))
                }
                async spanning_tree_async;

                /// [`spanning_tree`](Self::spanning_tree) of the rows that a filter allows, with progress in rows of which the neighbours
                /// are known.
                ///
                /// # Errors
                /// [`Error::Argument`] for a k of 0, for one that is not below the number of rows if there are two or more, and for a radius,
                /// probes, a recall or a profile; [`Error::Budget`]; [`Error::OutOfMemory`]; [`Error::DeviceLost`].
                pub fn spanning_tree_with(&self, options: &SearchOptions<'_>) -> Result<$crate::SpanningTree> {
                    self.common().spanning_tree(options)
                }
                async spanning_tree_with_async;

                /// Clusters by density (DBSCAN; Ester and others, 1996). A row with `min_samples` rows, itself among them, nearer than the radius of
                /// [`SearchOptions::within`] is a core row. Core rows nearer to each other than the radius are in one cluster, and so are the rows
                /// near a core row: of several clusters the first. The other rows are noise. Labels are those of scikit-learn, where rows at the
                /// radius itself are near each other too: the next larger radius gives them. A filter leaves rows out. An [`Ivf`](crate::Ivf)
                /// goes through all rows.
                ///
                /// Memory holds 16 bytes for each of up to `min_samples` pairs of every row, beside the pairs that
                /// [`visit_pairs`](Self::visit_pairs) finds at a time.
                ///
                /// # Errors
                /// As [`visit_pairs`](Self::visit_pairs); [`Error::Argument`] for `min_samples` of 0.
                ///
                /// ```
                /// use nearfield::{Device, Flat, Metric, SearchOptions};
                /// let index = Flat::from_rows(&Device::host(), Metric::L2, &[[0.0f32], [1.0], [2.0], [9.0]])?;
                /// let found = index.dbscan(&SearchOptions::within(1.5), 3)?;
                /// assert_eq!(found.labels, [Some(0), Some(0), Some(0), None]);
                /// assert_eq!(found.is_core, [false, true, false, false]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn dbscan(&self, options: &SearchOptions<'_>, min_samples: usize) -> Result<$crate::DensityClusters> {
                    self.common().dbscan(options, min_samples)
                }
                async dbscan_async;
            }
        }
    };
}
pub(crate) use pairwise_methods;
