//! Options of a device.

use crate::options::setters;

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
    /// Use subgroup operations, cooperative matrices among them, where the adapter has them. Default: true.
    pub subgroups: bool,
    /// Bytes of one segment of rows at most; the adapter's binding limit holds besides. Default: no other limit.
    pub max_segment_bytes: u64,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { budget_bytes: 256 << 20, subgroups: true, max_segment_bytes: u64::MAX }
    }
}

impl DeviceOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    setters! { options => options;
        /// Sets [`DeviceOptions::budget_bytes`].
        budget_bytes: u64;
        /// Sets [`DeviceOptions::subgroups`].
        subgroups: bool;
        /// Sets [`DeviceOptions::max_segment_bytes`].
        max_segment_bytes: u64;
    }
}
