//! `nearfield bench`: the one benchmark runner. A suite verifies its answers before it times them, and measures the
//! ceilings it is compared with in the same run.

mod breakeven;
mod ceilings;
mod data;
mod draw;
mod exact;
mod ivf;
mod reduce;
mod select;

use std::time::Duration;

use anyhow::ensure;
use clap::{Args as ClapArgs, Subcommand};
use nearfield::Device;

/// Arguments of `nearfield bench`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// Exact search: wall clock, stages on the device, upload, and the ceilings of this adapter
    Exact(exact::Args),
    /// Search in lists: building an index, recall against queries a second over probes
    Ivf(ivf::Args),
    /// Exact search on a GPU and on the processor, side by side: from how much work on which is ahead
    Breakeven(breakeven::Args),
    /// Reductions, or the ladder of the dot product: time on the device and in all, bytes a second, error
    Reduce(reduce::Args),
    /// The smallest elements of rows: time on the device and in all, bytes a second
    Select(select::Args),
    /// The ladder of reductions as a chart, and as a table
    Draw(draw::Args),
}

/// Runs a suite.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.suite {
        Suite::Exact(args) => exact::run(&args),
        Suite::Ivf(args) => ivf::run(&args),
        Suite::Breakeven(args) => breakeven::run(&args),
        Suite::Reduce(args) => reduce::run(&args),
        Suite::Select(args) => select::run(&args),
        Suite::Draw(args) => draw::run(&args),
    }
}

/// How long something runs before it is timed: long enough for a card to raise its clocks.
const WARM_UP: Duration = Duration::from_millis(300);

/// Median and spread of some times.
#[derive(Debug, Clone, Copy)]
struct Times {
    median: Duration,
    least: Duration,
    most: Duration,
}

impl Times {
    /// Runs something `runs` times and keeps what it says it took.
    fn of(runs: usize, mut run: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Self> {
        let mut times = (0..runs.max(1)).map(|_| run()).collect::<anyhow::Result<Vec<_>>>()?;
        times.sort_unstable();
        Ok(Self { median: times[times.len() / 2], least: times[0], most: times[times.len() - 1] })
    }
}

/// Whether a device runs kernels; the host engine does not.
fn has_kernels(device: &Device) -> bool {
    device.capabilities().max_storage_buffers > 0
}

/// An error where there are no kernels to time.
fn needs_kernels(device: &Device, suite: &str) -> anyhow::Result<()> {
    let given = device.describe();
    ensure!(
        has_kernels(device),
        "--device: {suite} times kernels: needed a GPU or a software driver, given {given}"
    );
    Ok(())
}

/// Milliseconds, with three decimals.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A number rounded to four significant digits, for output.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
