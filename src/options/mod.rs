//! Options of adding rows, of searching, of devices and of all distances; filters and ids.

pub(crate) mod device;
pub(crate) mod distance;
pub(crate) mod distribution;
pub(crate) mod filter;
pub(crate) mod ids;
pub(crate) mod quantization;
pub(crate) mod residency;

use std::fmt;

use crate::options::filter::Filter;

/// Writes setters: each sets the field of its name in `$place` to its argument, or to what `=> Some` makes of it.
macro_rules! setters {
    ($options:ident => $place:expr; $($(#[$doc:meta])* $name:ident: $type:ty $(=> $wrap:ident)?;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            let $options = &mut self;
            $place.$name = $($wrap)?($name);
            self
        }
    )*};
}
pub(crate) use setters;

/// A function that a long call tells how far it is: the number of rows or queries done so far.
pub(crate) type Progress<'a> = &'a (dyn Fn(usize) + Send + Sync);

/// How rows are added: see [`Flat::add_with`](crate::Flat::add_with).
///
/// ```
/// use nearfield::AddOptions;
/// let ids = [7, 3, 9];
/// let print = |rows: usize| println!("{rows} rows sent");
/// let options = AddOptions::new().ids(&ids).progress(&print);
/// assert_eq!(options.ids, Some(&ids[..]));
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct AddOptions<'a> {
    /// The ids of the rows, one per row; none for their insertion numbers.
    pub ids: Option<&'a [u64]>,
    /// Called with the number of rows sent so far.
    pub progress: Option<Progress<'a>>,
}

impl<'a> AddOptions<'a> {
    /// Rows get insertion numbers as ids, successive ones that no row has; no progress is reported.
    pub fn new() -> Self {
        Self::default()
    }

    setters! { options => options;
        /// Sets the ids of the rows, one per row: each below 2^63 and not in the index yet. The id of a removed row can be given
        /// again.
        ids: &'a [u64] => Some;
        /// Calls `progress` with the number of rows sent so far.
        progress: Progress<'a> => Some;
    }

    pub(crate) fn report(&self, rows: usize) {
        if let Some(progress) = self.progress {
            progress(rows);
        }
    }
}

/// What a search finds: the k nearest rows ([`new`](Self::new)), or all rows nearer than a radius ([`within`](Self::within)).
/// `SearchOptions::new(k)` is what [`Flat::search`](crate::Flat::search) uses.
///
/// ```
/// use nearfield::{Device, Flat, Metric, SearchOptions};
/// let mut index = Flat::builder(&Device::host(), Metric::L2, 1).build()?;
/// index.add(&[[0.0f32], [2.0], [3.0], [9.0]])?;
/// let ids = |options: SearchOptions<'_>| -> nearfield::Result<Vec<u64>> {
///     Ok(index.search_with(&[2.6f32], &options)?.neighbors.ids().to_vec())
/// };
/// assert_eq!(ids(SearchOptions::new(3))?, [2, 1, 0]);
/// assert_eq!(ids(SearchOptions::within(1.0))?, [2, 1]);
/// assert_eq!(ids(SearchOptions::new(1).radius(1.0))?, [2]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct SearchOptions<'a> {
    /// Neighbours per query, at most; [`usize::MAX`] for all rows within the radius.
    pub k: usize,
    /// Only rows whose reported distance is below it are found; none for rows at any distance.
    pub radius: Option<f32>,
    /// Called after each batch with the number of queries answered so far.
    pub progress: Option<Progress<'a>>,
    /// Times the stages on the device, where the adapter has timestamps. A little slower.
    pub profile: bool,
    /// The rows that may be found; none for all.
    pub filter: Option<Filter<'a>>,
    /// Lists that an [`Ivf`](crate::Ivf) probes per query; none for its default. A [`Flat`](crate::Flat), which has no lists,
    /// refuses any, and so does a search with a radius, which goes through all rows.
    pub probes: Option<usize>,
    /// The part of the k nearest rows that an [`Ivf`](crate::Ivf) has to find, in place of probes; none for its default probes. A
    /// [`Flat`](crate::Flat) and a search with a radius find all rows there are, and ignore it.
    pub recall: Option<f64>,
    /// Whether a query of an [`Ivf`](crate::Ivf) that finds fewer than k rows in its lists probes twice as many, again and again, as it
    /// does under a filter. Every answer then has k rows, or all that are allowed. Default: false.
    pub iterative_scan: bool,
}

impl<'a> SearchOptions<'a> {
    /// The k nearest of all rows, without progress or profile.
    pub fn new(k: usize) -> Self {
        Self {
            k,
            radius: None,
            progress: None,
            profile: false,
            filter: None,
            probes: None,
            recall: None,
            iterative_scan: false,
        }
    }

    /// All rows nearer than `radius` to each query: those whose reported distance is below it, nearest first, ties by the smaller id.
    /// Each query has as many rows as there are: see [`Neighbors::offsets`](crate::Neighbors::offsets).
    ///
    /// A radius is a distance of the index's metric: for inner product `-(q.x)`, so rows with `q.x > 5` are within `-5.0`. The same
    /// rows are screened as by a search for the k nearest, with a fixed threshold. All kinds of indexes go through all rows and answer
    /// exactly: an [`Ivf`](crate::Ivf) does not know which lists have rows within a radius.
    pub fn within(radius: f32) -> Self {
        Self::new(usize::MAX).radius(radius)
    }

    setters! { options => options;
        /// Finds only rows nearer than `radius`, and of these at most k. An [`Ivf`](crate::Ivf) then goes through all rows, as for
        /// [`within`](Self::within), and its answers are exact.
        radius: f32 => Some;
        /// Probes this many lists of an [`Ivf`](crate::Ivf) per query.
        probes: usize => Some;
        /// Probes as many lists of an [`Ivf`](crate::Ivf) as find this part of the k nearest rows, from 0 to 1, on average.
        ///
        /// The index measures how many that are with the queries of such searches, as
        /// [`Ivf::probes_for_recall`](crate::Ivf::probes_for_recall) does: with those of the first search, and again when it has seen 30,
        /// 100, 300 and 1,000. These few searches take longer. It keeps up to 1,000 queries for that. After a change of the index, or for
        /// another k or recall than in the search before, it measures anew. A filter has no part in it.
        recall: f64 => Some;
        /// Sets [`SearchOptions::iterative_scan`].
        iterative_scan: bool;
        /// Calls `progress` after each batch with the number of queries answered so far.
        progress: Progress<'a> => Some;
        /// Times the stages on the device, into [`Statistics::stages`](crate::Statistics::stages). A search within a radius that computes
        /// every distance has none.
        profile: bool;
    }

    /// Searches only the rows that `filter` allows: a [`Filter`], or a reference to ids, to a set of ids or to a function. The answer is
    /// as exact as that of an index of these rows alone, and has fewer than k of them where fewer are allowed.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Filter<'a>>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// The radius of a search for all rows within it. Where k limits the rows, the k nearest are searched and cut at the radius.
    pub(crate) fn unlimited(&self) -> Option<f32> {
        self.radius.filter(|_| self.k == usize::MAX)
    }
}

impl fmt::Debug for AddOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddOptions").field("ids", &self.ids.map(<[u64]>::len)).finish_non_exhaustive()
    }
}

impl fmt::Debug for SearchOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchOptions")
            .field("k", &self.k)
            .field("radius", &self.radius)
            .field("profile", &self.profile)
            .field("filter", &self.filter)
            .field("probes", &self.probes)
            .field("recall", &self.recall)
            .field("iterative_scan", &self.iterative_scan)
            .finish_non_exhaustive()
    }
}
