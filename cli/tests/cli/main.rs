//! The `nearfield` program, from the outside: one test binary, a module a command.

mod build;
#[cfg(feature = "parquet")]
mod columns;
mod commands;
mod host;
#[cfg(unix)]
mod killed;
mod search;

use nearfield_testing::programs::Program;

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_nearfield"));
