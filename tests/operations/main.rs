//! Tests of reductions, distances and selection, and of the kernels that they record.
#![cfg(feature = "internals")]

#[path = "../common/mod.rs"]
mod common;

mod ceilings;
mod distances;
mod nearest;
mod recorded;
mod reduce;
mod select;
mod select_buckets;
mod select_paths;
