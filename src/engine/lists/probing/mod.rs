//! Search in the lists of an `Ivf`: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! There are two ways with one answer. For few queries, all rows of the probed lists are candidates and are rescored. For many, where
//! rows are narrowed, the search is list-major: queries are grouped by the lists they probe, so that a list is read once for 32 of
//! them, and its rows are screened by tiles of integers as in `Flat`.

mod batch;
mod list_major;
mod plan;
mod probes;
mod search;

pub(crate) use probes::Probing;
