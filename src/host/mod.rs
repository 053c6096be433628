//! The host engine: the same operations on the processor, for machines without a GPU and for work that is too small for one.
//!
//! It computes distances in f64 and rounds them once, so that they do not depend on the order of summation. It excludes rows by the
//! same certificates as a GPU does.

pub(crate) mod integers;
pub(crate) mod lists;
pub(crate) mod processor;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod search;

pub(crate) use lists::centroids::HostCentroids;
pub(crate) use lists::probing::HostLists;
pub(crate) use lists::training::HostTraining;
pub(crate) use processor::{Host, Once};
pub(crate) use reduce::records::{Reduced, reduce, reduce_rows};
pub(crate) use reduce::top_k::top_k;
pub(crate) use rows::norms::checked;
pub(crate) use rows::store::HostRows;
pub(crate) use rows::widen::widened;
pub(crate) use search::distances::distances;
pub(crate) use search::pipeline::{Answer, Asked, Wanted};
