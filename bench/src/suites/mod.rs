//! The suites: each measures one kind of work on a device.

pub(super) mod breakeven;
pub(super) mod distance;
pub(super) mod exact;
pub(super) mod graph;
pub(super) mod ivf;
pub(super) mod maxsim;
pub(super) mod reduce;
pub(super) mod select;
pub(super) mod serve;
