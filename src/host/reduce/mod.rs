//! Reductions and selections on the host.

pub(crate) mod deviations;
mod extremes;
mod fold;
mod k_smallest;
mod long_rows;
mod operations;
mod place;
pub(crate) mod records;
mod short_rows;
mod sums;
pub(crate) mod top_k;
