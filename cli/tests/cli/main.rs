//! The `nearfield` program, from the outside: one test binary, a module a command.

mod benchmark;
mod build;
mod commands;
mod common;
mod generate;
mod host;
mod runs;
mod search;
mod truth;
mod verify;
