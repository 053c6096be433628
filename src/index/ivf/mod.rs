//! `Ivf`: approximate search in lists of rows, each around a centroid.

pub(crate) mod builder;
mod changes;
mod measured;
mod pages;
mod persist;
mod recall;

use std::io::Write;
use std::path::Path;

use crate::engine::{Device, Devices, SearchResult, TunedKernel, Vectors};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::index::common::Common;
use crate::index::face::{index_methods, search_methods};
use crate::index::loader::Loader;
use crate::index::pairwise::methods::pairwise_methods;
use crate::index::shared::SharedSearches;
use crate::index::vector_index::vector_index;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::{AddOptions, SearchOptions};
use crate::usage::Memory;
use measured::Recalls;
use pages::Pages;

/// An inverted file: rows lie in lists, each around a centroid, and a search looks at the lists whose centroids are nearest to the query
/// (J. Sivic, A. Zisserman, *Video Google*, ICCV 2003). Among the rows of those lists its answer is exact, with the distances, the
/// order and the tie rule of [`Flat`](crate::Flat); with as many probes as there are lists it is the same, bit for bit.
///
/// Rows come and go as in `Flat`, and ids stay. Searches take `&self` and run from many threads at once. As in `Flat`, those that arrive
/// while the device works are searched together.
///
/// On a GPU, a search of fewer than 8,192 rows, or of a quarter of the lists or more, takes no less time than a search of all rows. It then
/// goes through all of them, and its answers are exact; [`Statistics::searched_flat`](crate::Statistics::searched_flat) counts its queries,
/// and [`DeviceOptions::exact_if_faster`](crate::DeviceOptions::exact_if_faster) turns this off.
///
/// ```no_run
/// use nearfield::{Device, Ivf, MatrixView, Metric};
/// let rows: Vec<f32> = (0..10_000 * 64).map(|i| (i as f32 * 0.37).sin()).collect();
/// let rows = MatrixView::new(&rows, 64)?;
/// let device = Device::best()?;
/// let mut index = Ivf::builder(&device, Metric::L2, 64).lists(Ivf::recommend(rows.rows())).train(rows)?;
/// index.add(rows)?;
/// let found = index.search(rows.slice(0..1), 10)?;
/// assert_eq!(found.row(0)[0].id, 0);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Ivf {
    common: Common,
    lists: usize,
    pages: Pages,
    recalls: Recalls,
    searches: SharedSearches,
}

index_methods!(Ivf);
search_methods!(Ivf);
pairwise_methods!(Ivf, self => false);
vector_index!(Ivf);

impl Ivf {
    /// The recommended number of lists for this many rows: the power of two nearest to four times their square root, or fewer
    /// where that leaves less than 32 rows per list.
    pub fn recommend(rows: usize) -> usize {
        let root = 4 * rows.isqrt();
        let nearest = (root + root / 3).next_power_of_two() / 2;
        nearest.min(rows / 32).max(1)
    }

    blocking_and_async! { self.common.device;
        /// The fewest probes with which queries like these find at least `recall` of their k nearest rows, on average: measured against
        /// exact search. Take some hundred queries like those to come. The recall of these queries is higher by a margin for their
        /// number, 1.645 standard errors, so that the mean over queries to come is below `recall` in one case of twenty. Fewer than 300
        /// queries tell little: 300 rows of the index then have to reach the recall too, each among the other rows. The result is
        /// at most [`Ivf::lists`], which find all rows. Measure again when rows were removed or the index is on another device: where
        /// a GPU goes through all rows, it finds them all. [`SearchOptions::recall`] measures by itself, with the queries of searches.
        ///
        /// # Errors
        /// [`Error::Argument`] for no queries, or a recall that is not within 0 and 1; otherwise as [`search`](Self::search).
        ///
        /// ```no_run
        /// # use nearfield::{Device, Ivf, MatrixView, Metric, SearchOptions};
        /// # let (device, rows) = (Device::best()?, MatrixView::new(&[0.0f32; 64], 1)?);
        /// # let index = Ivf::builder(&device, Metric::L2, 1).lists(4).train(rows)?;
        /// # let (sample, queries) = (rows, rows);
        /// let probes = index.probes_for_recall(sample, 10, 0.95)?;
        /// let found = index.search_with(queries, &SearchOptions::new(10).probes(probes))?.neighbors;
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn probes_for_recall<'q>(
            &self,
            queries: impl Into<Vectors<'q>>,
            k: usize,
            recall: f64,
        ) -> Result<usize> {
            self.boxed_probes(queries.into(), k, recall)
        }
        async probes_for_recall_async;

        /// The centroids, `[lists, dim]`: of length 1 for cosine and inner product, except where rows cancel each other out. Those of
        /// bits are `[lists, 8 dim]`: the mean of each bit of the rows that were trained on, the highest of a byte first.
        ///
        /// # Errors
        /// [`Error::DeviceLost`].
        pub fn centroids(&self) -> Result<Vec<f32>> {
            self.common.store.rows.centroids()
        }
        async centroids_async;
    }

    /// The probes of a search that does not say how many: a 64th of the lists, and at least one.
    /// [`SearchOptions::probes`] says how many.
    pub fn default_probes(&self) -> usize {
        (self.lists / 64).max(1)
    }

    /// How many lists there are.
    pub fn lists(&self) -> usize {
        self.lists
    }

    /// How many rows each list has.
    pub fn list_sizes(&self) -> Vec<usize> {
        self.pages.sizes.iter().map(|&size| size as usize).collect()
    }

    fn of(common: Common, pages: Pages) -> Self {
        let (searches, lists) = (SharedSearches::new(&common), pages.sizes.len());
        Self { searches, common, lists, pages, recalls: Recalls::default() }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    pub(crate) fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    pub(crate) fn measure_lists(&self, memory: &mut Memory) {
        self.pages.measure(memory);
    }

    /// Whether a search with this many probes goes through all rows.
    ///
    /// Lists and rows are counted, and queries are not: a query has the same answer alone and in any batch. The host reads only the rows
    /// that are probed, at the same speed as all rows, so it always searches lists.
    fn is_flat(&self, probes: usize) -> bool {
        let device = &self.common.device;
        let is_quicker =
            self.common.store.len() < FLAT_ROWS || probes.saturating_mul(FLAT_SHARE) >= self.lists;
        !device.is_host() && device.options().exact_if_faster && is_quicker
    }

    pub(crate) fn boxed_search<'s>(
        &'s self,
        queries: Vectors<'s>,
        options: &'s SearchOptions<'_>,
    ) -> Boxed<'s, SearchResult> {
        Box::pin(async move {
            self.common.check_search(&queries, options)?;
            if options.radius.is_some() {
                return self.searches.search(&self.common, queries, options, None).await;
            }
            let probes = match options.recall {
                Some(recall) if queries.rows() > 0 => self.probes_for((options.k, recall), queries).await?,
                _ => options.probes.unwrap_or(self.default_probes()),
            };
            if probes == 0 || probes > self.lists {
                let needed = format!("1 to {}, the number of lists", self.lists);
                return Err(Error::argument("probes", needed, probes));
            }
            let is_flat = self.is_flat(probes);
            let probed = (!is_flat).then_some(probes as u32);
            let mut found = self.searches.search(&self.common, queries, options, probed).await?;
            if is_flat {
                found.statistics.searched_flat = queries.rows() as u64;
            }
            if options.recall.is_some() {
                self.keep_seen(queries).await;
            }
            Ok(found)
        })
    }
}

/// A GPU searches all rows if a search would probe at least this fraction of the lists: one in four. A batch then takes no longer than in
/// lists, because the tiles of a `Flat` are always full. A single query loses less time than it takes to read the rows once.
const FLAT_SHARE: usize = 4;

/// A GPU searches all rows of an index with fewer rows than this. One query of 4,000 rows takes 0.09 ms by all rows and 0.13 to 0.18 ms by
/// lists; from 16,000 rows on, lists take no longer (H200, 128 to 1,536 dimensions).
const FLAT_ROWS: u64 = 1 << 13;
