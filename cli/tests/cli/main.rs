//! The `nearfield` program, from the outside: one test binary, a module a command.

mod benchmark;
mod build;
mod commands;
mod common;
mod generate;
mod host;
#[cfg(unix)]
mod killed;
mod runs;
mod search;
mod soak;
#[cfg(feature = "sql")]
mod sql;
mod truth;
mod verify;
