//! Tests of single kernels and of the bounds of their errors, against naive references in f64.
#![cfg(feature = "internals")]

#[path = "../common/mod.rs"]
mod common;

mod average;
mod candidates;
mod certificate;
mod certificate_rounding;
mod compile_times;
mod distances;
mod forms;
mod ivf;
mod pairs;
mod quantized;
mod reduce;
mod refine;
mod rows;
mod screens;
mod warm_up;
