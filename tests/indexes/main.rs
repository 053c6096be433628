//! Tests of `Flat` and `Ivf`: the right answers on every path, through every change.
#![cfg(feature = "internals")]

#[path = "../common/mod.rs"]
mod common;

mod budget;
mod callers;
mod devices;
mod dropped;
mod errors;
mod everyday;
mod filter;
mod flat;
mod host;
mod hybrid;
mod interrupt;
mod ivf;
mod kmeans;
mod limits;
mod living;
mod lost;
#[cfg(target_os = "linux")]
mod memory;
mod several;
mod support;
mod within;
