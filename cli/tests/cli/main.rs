//! The `nearfield` program, from the outside: one test binary, a module a command.

mod build;
mod change;
#[cfg(feature = "parquet")]
mod columns;
mod commands;
mod documents;
mod host;
mod info;
#[cfg(unix)]
mod killed;
mod operations;
mod pairwise;
mod search;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Result, ensure};
use nearfield::io::{Ids, read_ids, write_npy};
use nearfield_testing::programs::Program;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_nearfield"));

/// A directory that the program runs in.
struct Here(TempDir);

impl Here {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// With `three.npy`, three rows of two elements.
    fn with_three_rows() -> Result<Self> {
        let here = Self::new()?;
        here.write("three.npy", [3, 2], &[0.0, 0.0, 3.0, 4.0, 6.0, 8.0])?;
        Ok(here)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn write(&self, name: &str, shape: [usize; 2], values: &[f32]) -> Result<()> {
        Ok(write_npy(self.at(name), shape, values)?)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.at(name))?)
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.at(name))?)
    }

    fn ids(&self, name: &str) -> Result<Ids> {
        Ok(read_ids(self.at(name))?)
    }

    /// Runs the program, which has to succeed, and returns what it printed.
    fn run(&self, arguments: &str) -> Result<String> {
        PROGRAM.succeed(self.path(), arguments)
    }

    /// The JSON object of a run that has to succeed.
    fn record(&self, arguments: &str) -> Result<Value> {
        PROGRAM.record(self.path(), arguments)
    }

    /// Runs the program, checks that it succeeds or fails as expected, and returns its stderr.
    fn said(&self, arguments: &str, succeeds: bool) -> Result<String> {
        let Output { status, stderr, .. } = PROGRAM.run(self.path(), arguments)?;
        ensure!(status.success() == succeeds, "{arguments}: {status}");
        Ok(String::from_utf8(stderr)?)
    }

    /// Runs the program with `start` and each of these arguments: it has to fail, with a complaint that holds all parts.
    fn fail(&self, start: &str, cases: &[(&str, &[&str])]) -> Result<()> {
        let fail =
            |(more, parts): &(&str, &[&str])| PROGRAM.fail(self.path(), &format!("{start} {more}"), parts);
        cases.iter().try_for_each(fail)
    }
}
