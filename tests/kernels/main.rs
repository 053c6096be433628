//! Single kernels and the bounds of their errors, against naive references.

#[path = "../common/mod.rs"]
mod common;

mod average;
mod certificate;
mod certificate_rounding;
mod distances;
mod ivf;
mod lists;
mod move_rows;
mod narrowed;
mod reduce;
mod rescore;
mod screens;
mod winnow;
