//! The `nearfield` program, from the outside: one test binary, a module a command.

mod bench;
mod build;
mod commands;
mod common;
mod compare;
mod generate;
mod host;
mod peers;
mod reduce;
mod report;
mod runs;
mod search;
mod select;
mod truth;
mod verify;
