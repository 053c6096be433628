//! The `nearfield-bench` program, from the outside: its suites, peers, comparisons and report, and what makes and judges data.

mod bench;
mod compare;
mod generate;
mod kernels;
#[cfg(unix)]
mod killed;
mod peers;
mod report;
mod soak;
mod truth;
mod verify;

use nearfield_testing::programs::Program;

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_nearfield-bench"));
