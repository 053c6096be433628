//! Options of a device.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::options::setters;
use crate::platform::HAS_FILES;

/// How a device is opened.
///
/// ```
/// let options = nearfield::DeviceOptions::new().budget_bytes(1 << 30).subgroups(false);
/// assert_eq!((options.budget_bytes, options.subgroups), (1 << 30, false));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Bytes of scratch memory on the device that all calls together may hold, kept buffers included. The host engine counts it call by
    /// call: queries in f32, scores and candidates of a search, keys and columns of a selection, but neither results nor stacks, so that
    /// its reductions take none.
    ///
    /// On a GPU, calls that find too little of it free wait for others to end. A future keeps its share until it ends or is dropped
    /// (never `mem::forget` one), so a thread must not block, in a blocking call or in an executor of its own, while it also has to
    /// poll such a future, nor in a `progress` function or a filter of a call on the same device: it could wait for itself.
    ///
    /// Default: 256 MiB.
    pub budget_bytes: u64,
    /// Bytes that the rows of all indexes together may hold on the device: the rows, with their norms and ids, and their 8-bit copies, with the
    /// room for rows to come, as [`Index::memory`](crate::Index::memory) tells of `rows`, `norms`, `ids` and `integers`. Not counted are
    /// scratch memory, which has [`budget_bytes`](Self::budget_bytes), centroids, the tables of lists, bits of tombstones, and matrices of the
    /// caller's. On a GPU, a buffer that grows is held twice, and counted twice, until its rows are copied; while an index compacts itself or moves
    /// to the host, the device has the old buffers and the new ones for a moment, of which the smaller or new ones count.
    ///
    /// Where a change would exceed it, an index with [`Residency::Auto`](crate::Residency::Auto) moves its rows to the host; with another
    /// place, or if the 8-bit copy alone does not fit, the change is [`Error::MemoryLimit`](crate::Error::MemoryLimit) and the index stays
    /// as it was. The host engine counts its memory; of rows in
    /// a file that is their norms, ids and 8-bit copies. Rows that the host keeps for a GPU are not counted. Default: no other limit than the device's memory.
    pub memory_bytes: u64,
    /// Use subgroup operations, cooperative matrices among them, where the adapter has them. Default: true.
    pub subgroups: bool,
    /// Bytes of one segment of rows at most; the adapter's binding limit holds besides. Default: no other limit.
    pub max_segment_bytes: u64,
    /// Search for the queries of several callers together. A search of an index that begins while others of the same index are in
    /// flight waits until the device is done with one of them, or until as many queries wait as are in flight; then all that wait for the
    /// same k and probes run as one, which takes the device little longer than a single one.
    ///
    /// Answers are the same, bit for bit, and an error stays its caller's. A search that finds no other in flight starts at once.
    /// Some searches wait for nobody and run beside the others: those with a filter, a radius, a profile or progress, for more than
    /// 4,096 neighbours, of 256 queries or 262,144 elements and more, or of queries on the device; those of tasks on threads of rayon's
    /// pool; and on the host those of too few rows for all threads.
    ///
    /// Blocking calls and futures mix. A future that is dropped or not polled again holds up no other search; as before, it keeps its
    /// share of the budget until it is dropped. Default: true.
    pub join_searches: bool,
    /// Let an [`Ivf`](crate::Ivf) on a GPU go through all rows where that takes no longer than its lists: an index of fewer than 8,192
    /// rows always, a larger one with probes for a quarter of the lists or more. Such answers are exact, and
    /// [`Statistics::searched_flat`](crate::Statistics::searched_flat) counts them. Turn it off to learn from a few rows what recall lists
    /// will have. Default: true.
    pub exact_if_faster: bool,
    /// A directory for compiled kernels, so that the next process does not compile them again; none for no such files. On Vulkan the
    /// library keeps there what the driver made of its kernels, a few MiB, in a file for each adapter, driver and version of the
    /// library. The file is read before the first kernel is compiled, and written when an index was made or warmed up and when the
    /// device is dropped. A file that is damaged or that cannot be read or written is no error: kernels are then compiled again.
    /// Drivers trust these files. A directory that others may write to, or that is another user's, is therefore not used.
    ///
    /// Default: the directory that the environment variable `NEARFIELD_CACHE` names, none if that is empty; without the variable,
    /// `nearfield` in the user's directory for caches, such as `~/.cache`.
    pub cache_dir: Option<PathBuf>,
    /// Let `warm_up` of an index time kernels that were not timed on such a device yet, to use their faster forms: see
    /// [`Flat::tune`](crate::Flat::tune). Default: true.
    pub tune: bool,
}

/// The default of [`DeviceOptions::cache_dir`].
fn cache_dir() -> Option<PathBuf> {
    if !HAS_FILES {
        return None;
    }
    match std::env::var_os("NEARFIELD_CACHE") {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None => Some(etcetera::base_strategy::choose_native_strategy().ok()?.cache_dir().join("nearfield")),
    }
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            budget_bytes: 256 << 20,
            memory_bytes: u64::MAX,
            subgroups: true,
            max_segment_bytes: u64::MAX,
            join_searches: true,
            exact_if_faster: true,
            cache_dir: cache_dir(),
            tune: true,
        }
    }
}

impl DeviceOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The directory for compiled kernels, where there are files.
    pub(crate) fn kernels_dir(&self) -> Option<&Path> {
        if HAS_FILES { self.cache_dir.as_deref() } else { None }
    }

    setters! { options => options;
        /// Sets [`DeviceOptions::budget_bytes`].
        budget_bytes: u64;
        /// Sets [`DeviceOptions::memory_bytes`].
        memory_bytes: u64;
        /// Sets [`DeviceOptions::subgroups`].
        subgroups: bool;
        /// Sets [`DeviceOptions::max_segment_bytes`].
        max_segment_bytes: u64;
        /// Sets [`DeviceOptions::join_searches`].
        join_searches: bool;
        /// Sets [`DeviceOptions::exact_if_faster`].
        exact_if_faster: bool;
        /// Sets [`DeviceOptions::cache_dir`].
        cache_dir: Option<PathBuf>;
        /// Sets [`DeviceOptions::tune`].
        tune: bool;
    }
}
