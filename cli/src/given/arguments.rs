//! Readers of argument values that several subcommands share. clap names the argument and what was given.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use nearfield::{Error, Metric};
use rayon::ThreadPoolBuilder;

/// The most threads: each takes memory, and systems allow a program some thousands.
const MOST_THREADS: usize = 1024;

/// Reads a count of at least 1.
pub fn count(text: &str) -> Result<usize> {
    text.parse().ok().filter(|&count| count > 0).context("needed a whole number, at least 1")
}

/// Reads a part of a whole, from 0 to 1.
pub fn part(text: &str) -> Result<f64> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.context("needed a number from 0 to 1, like 0.95")
}

/// Reads a distance. All distances are within an infinite one.
pub fn radius(text: &str) -> Result<f32> {
    let radius = text.parse().ok().filter(|radius: &f32| !radius.is_nan());
    radius.context("needed a number, like 0.3")
}

/// Reads a word of the library, like the name of a metric. Words are in lower case.
pub fn word<T: FromStr<Err = Error>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| {
        let needed = match error {
            Error::Argument { needed, .. } => needed,
            other => return other.into(),
        };
        let lower = text.to_lowercase();
        let is_word = lower.parse::<T>().is_ok();
        let tip = if is_word { format!("; did you mean {lower}?") } else { String::new() };
        anyhow!("needed {needed}{tip}")
    })
}

/// Reads the name of a metric of vectors of numbers.
pub fn metric_of_numbers(text: &str) -> Result<Metric> {
    let metric = word(text).ok().filter(|metric| Metric::ALL.contains(metric));
    metric.map_or_else(
        || {
            Err(word::<Metric>(text)
                .err()
                .unwrap_or_else(|| anyhow!("needed l2sq, l2, cosine or ip, which compare numbers")))
        },
        Ok,
    )
}

pub fn threads(text: &str) -> Result<usize> {
    let threads = text.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.with_context(|| format!("needed a whole number from 1 to {MOST_THREADS}"))
}

/// Why there may be no threads.
const NO_THREADS: &str = "--threads: the system does not start as many";

/// The threads of a command that computes on the host.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Threads {
    /// Threads on the host; by default one for each processor
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
}

impl Threads {
    /// Gives all work of the program these threads. Comes before any.
    pub fn set_for_all(self) -> Result<()> {
        // Zero stands for one for each processor.
        ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0)).build_global().context(NO_THREADS)
    }

    /// Does work that has these threads.
    pub fn run(self, work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
        match self.threads {
            None => work(),
            Some(threads) => {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build();
                pool.context(NO_THREADS)?.install(work)
            }
        }
    }
}

/// The name of a value on the command line.
pub fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
