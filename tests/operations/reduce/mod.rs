//! Tests of reductions.

mod deviation;
mod paths;
mod precision;
mod recorded;
mod rows;
mod rows_paths;
mod vectors;
