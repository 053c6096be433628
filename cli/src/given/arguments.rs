//! Readers of argument values that several subcommands share. clap names the argument and what was given.

use anyhow::{Context, Result};
use clap::ValueEnum;
use nearfield::ElementKind;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The most threads: each takes memory, and systems allow a program some thousands.
const MOST_THREADS: usize = 1024;

/// Element types of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Elements {
    F32,
    F16,
}

impl From<Elements> for ElementKind {
    fn from(elements: Elements) -> Self {
        match elements {
            Elements::F32 => Self::F32,
            Elements::F16 => Self::F16,
        }
    }
}

/// Reads a count of at least 1.
pub(crate) fn count(text: &str) -> Result<usize> {
    text.parse().ok().filter(|&count| count > 0).context("needed a whole number, at least 1")
}

/// Reads a part of a whole, from 0 to 1.
pub(crate) fn part(text: &str) -> Result<f64> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.context("needed a number from 0 to 1, like 0.95")
}

pub(crate) fn threads(text: &str) -> Result<usize> {
    let threads = text.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.with_context(|| format!("needed a whole number from 1 to {MOST_THREADS}"))
}

/// A pool of this many threads, or of one for each processor.
pub(crate) fn pool(threads: Option<usize>) -> Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build()?)
}

/// Runs a command whose host engine has this many threads; all if none is given.
pub(crate) fn with_threads(threads: Option<usize>, run: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    match threads {
        None => run(),
        some => pool(some)?.install(run),
    }
}

/// The name of a value on the command line.
pub(crate) fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
