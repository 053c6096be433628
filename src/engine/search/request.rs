//! The request of a search, and its result with statistics.

use crate::engine::rows::allowed::{Allowed, Scope};
use crate::gpu::{FormChoice, StageTime};
use crate::host::{HostRequest, SearchLimit};
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::residency::Residency;

/// The request of a search.
#[derive(Clone, Copy)]
pub(crate) struct SearchRequest<'a> {
    pub(crate) metric: Metric,
    pub(crate) k: usize,
    /// Whether queries and rows are of integers, so that their distances are exact.
    pub(crate) integral: bool,
    /// All rows within it are to be found, instead of the k nearest.
    pub(crate) radius: Option<f32>,
    pub(crate) budget: u64,
    /// The rows that pass the filter. None without a filter.
    pub(crate) allowed: Option<&'a Allowed>,
    /// How many lists a query probes; none for all rows. Rows without lists ignore it.
    pub(crate) probes: Option<u32>,
    /// Whether a query that finds fewer than k rows in lists probes more of them.
    pub(crate) widens: bool,
    /// Measures the time of each stage on the device.
    pub(crate) profile: bool,
    /// The forms of kernels to run. A profile of other than the tuned ones times each kernel.
    pub(crate) forms: FormChoice,
    /// Called with the number of answered queries.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

impl SearchRequest<'_> {
    /// The k nearest of all rows, and nothing besides.
    pub(crate) fn nearest(metric: Metric, k: usize, budget: u64) -> Self {
        Self {
            metric,
            k,
            integral: false,
            radius: None,
            budget,
            allowed: None,
            probes: None,
            widens: false,
            profile: false,
            forms: FormChoice::Tuned,
            progress: None,
        }
    }

    /// An upper bound of the distances within the radius, as engines compute them: L2 as its square.
    pub(crate) fn most(&self) -> Option<f32> {
        let most = self.metric.ordering_bound(self.radius?.into());
        Some((most as f32).next_up().clamp(f32::MIN, f32::MAX))
    }

    /// Whether a row at this distance, which for L2 is its square, is within the radius. NaN is not; without a radius every row is.
    pub(crate) fn takes(&self, distance: f32) -> bool {
        self.radius.is_none_or(|radius| self.metric.of_ordering(distance) < radius)
    }

    pub(crate) fn limit(&self) -> SearchLimit {
        self.most().map_or(SearchLimit::Nearest(self.k), SearchLimit::Within)
    }

    /// The same request to the host's engine, with a progress of its own.
    pub(crate) fn on_host<'h>(
        &'h self,
        progress: Option<&'h (dyn Fn(usize) + Send + Sync)>,
    ) -> HostRequest<'h> {
        let allowed = self.allowed.map(|allowed| &allowed.bits);
        HostRequest { limit: self.limit(), budget: self.budget, allowed, progress }
    }

    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope { budget: self.budget, allowed: self.allowed }
    }

    pub(crate) fn report(&self, answered: usize) {
        if let Some(progress) = self.progress {
            progress(answered);
        }
    }
}

/// The work that a search did.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Rows with a computed score or distance, summed over all queries. In a `Flat` these are all rows, or under a filter those that it allows
    /// where only these are computed (on the host also all groups of 16 rows that have one); blocks that kernels leave out because a filter
    /// allows none of their rows count too. In an [`Ivf`](crate::Ivf) the rows of the
    /// probed lists. Tombstones that removed rows left count in a `Flat`, and rows of a query that was searched again count again.
    pub scored: u64,
    /// Rows that screens could not exclude, summed over all queries that have an answer by them. Their distances were computed as they are
    /// reported.
    pub refined: u64,
    /// Queries with more such rows than their list of candidates holds. They were searched again: first without quantising, then
    /// exhaustively; in an `Ivf` with longer lists, then with all rows of the lists that they probe; where the host keeps the rows, with
    /// longer lists, then by the host. A query that was searched again twice counts twice.
    pub searched_again: u64,
    /// Queries among them that were searched exhaustively. Where the host keeps the rows, it went through all of them, also for queries
    /// whose candidates the budget had no room for.
    pub searched_exhaustively: u64,
    /// Queries for which an [`Ivf`](crate::Ivf) searched all of its rows, because their lists would not have taken less time: see
    /// [`DeviceOptions::exact_if_faster`](crate::DeviceOptions::exact_if_faster). The answers are those of a `Flat`.
    pub searched_flat: u64,
    /// Whether the host answered alone for a GPU: see [`FlatBuilder::residency`](crate::FlatBuilder::residency), [`FlatBuilder::keep_host_copy`](crate::FlatBuilder::keep_host_copy) and
    /// [`IvfBuilder::keep_host_copy`](crate::IvfBuilder::keep_host_copy).
    pub on_host: bool,
    /// Whether an [`Ivf`](crate::Ivf) searched all of its rows because the device had no memory for the tables of its lists. The answers
    /// are those of a search that probes every list. The next change of the index tries again to make the tables.
    pub tables_missing: bool,
    /// Queries of other callers that were searched together with these: see
    /// [`DeviceOptions::join_searches`](crate::DeviceOptions::join_searches). The counts above are then the part of the whole search's
    /// that the number of these queries is of all queries, rounded so that they add up over the callers.
    pub joined: u64,
    /// Where the rows are that were searched: those of the index ([`Residency`](crate::Residency)), or those of its host copy.
    pub rows: Residency,
    /// Windows of rows that were quantised and sent to a device for this search: see
    /// [`Residency::Streamed`](crate::Residency::Streamed). 0 if devices had what they screened.
    pub windows: u64,
    /// Devices that searched: more than one for an index on [`Devices`](crate::Devices).
    pub devices: usize,
    /// Device time of each stage, if the request asked for it and the adapter has timestamps.
    pub stages: Vec<StageTime>,
}

/// The answer of a search and how it came about.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SearchResult {
    /// The rows found for each query, nearest first, ties by the smaller id.
    pub neighbors: Neighbors,
    /// How many rows were scored, refined and searched again, where, and in what time.
    pub statistics: Statistics,
}

impl Statistics {
    /// Adds the work of another search for some of the same queries.
    pub(crate) fn add(&mut self, other: &Self) {
        self.scored += other.scored;
        self.refined += other.refined;
        self.searched_again += other.searched_again;
        self.searched_exhaustively += other.searched_exhaustively;
        self.windows += other.windows;
        self.tables_missing |= other.tables_missing;
        self.stages.extend_from_slice(&other.stages);
    }
}

impl SearchResult {
    /// The answer in the distances of a metric. Devices give squares for L2, because squares may differ where their roots are equal, and
    /// what several devices found is merged by them. `rows` is where the rows are.
    pub(crate) fn with_roots(mut self, metric: Metric, rows: Residency) -> Self {
        if metric.is_root() {
            self.neighbors.take_roots();
        }
        // A copy that answered has told its place.
        if self.statistics.rows == Residency::Device {
            self.statistics.rows = rows;
        }
        self.statistics.devices = self.statistics.devices.max(1);
        self
    }
}
