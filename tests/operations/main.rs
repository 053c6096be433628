//! Tests of reductions, distances and selection, and of the kernels that they record.

#[path = "../common/mod.rs"]
mod common;

mod ceilings;
mod distances;
mod ladder;
mod nearest;
mod recorded;
mod reduce;
mod reduce_paths;
mod reduce_precision;
mod reduce_recorded;
mod reduce_rows;
mod reduce_rows_paths;
mod select;
mod select_buckets;
mod select_paths;
