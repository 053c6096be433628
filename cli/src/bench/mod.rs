//! `nearfield bench`: the benchmark (docs/benchmark.md). A suite verifies its answers before it times them, and compares its
//! times with ceilings measured in the same run.

mod all;
mod answers;
mod case;
mod ceilings;
mod compare;
mod data;
mod gpu;
mod lines;
mod peers;
mod report;
mod run;
mod stages;
mod suites;
mod times;
mod units;
mod words;
mod work;

use clap::{Args as ClapArgs, Subcommand};

use run::{Common, Run, Shared};
use suites::{breakeven, distance, exact, ivf, reduce, select};

/// Arguments of `nearfield bench`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all suites, in sizes that suit the device
    #[command(after_long_help = all::HELP)]
    All(Timed<all::Args>),
    #[command(flatten)]
    Suite(Suite),
    /// Time other libraries at the same work, through Python: numpy, faiss, usearch, PyTorch, cuVS
    #[command(after_long_help = peers::HELP)]
    Peers(Peers),
    /// The figures of one or more runs as an HTML page, as Markdown tables, or as a chart
    Report(report::Args),
    /// Compare two runs case by case
    Compare(compare::Args),
}

/// The suites, with the arguments that all have.
#[derive(Debug, Subcommand)]
enum Suite {
    /// Time the distances of all pairs of two sets on the device
    #[command(after_long_help = distance::HELP)]
    Distance(Timed<distance::Args>),
    /// Time reductions, or the ladder of the dot product
    #[command(after_long_help = reduce::HELP)]
    Reduce(Timed<reduce::Args>),
    /// Time the selection of the smallest elements of rows
    #[command(after_long_help = select::HELP)]
    Select(Timed<select::Args>),
    /// Time exact search, its stages on the device, and the upload
    #[command(after_long_help = exact::HELP)]
    Exact(Timed<exact::Args>),
    /// Time search in lists: building an index, recall and queries per second over probes
    #[command(after_long_help = ivf::HELP)]
    Ivf(Timed<ivf::Args>),
    /// Time exact search on a GPU and on the processor, to find how much work makes the GPU faster
    #[command(after_long_help = breakeven::HELP)]
    Breakeven(Timed<breakeven::Args>),
}

/// The arguments of a suite, and those that all suites have.
#[derive(Debug, ClapArgs)]
struct Timed<A: ClapArgs> {
    #[command(flatten)]
    suite: A,
    #[command(flatten)]
    common: Common,
}

/// The arguments of the peers, which need no device.
#[derive(Debug, ClapArgs)]
struct Peers {
    #[command(flatten)]
    peers: peers::Args,
    #[command(flatten)]
    shared: Shared,
}

impl Suite {
    fn parts(&self) -> (&dyn run::Suite, &Common) {
        match self {
            Self::Distance(Timed { suite, common }) => (suite, common),
            Self::Reduce(Timed { suite, common }) => (suite, common),
            Self::Select(Timed { suite, common }) => (suite, common),
            Self::Exact(Timed { suite, common }) => (suite, common),
            Self::Ivf(Timed { suite, common }) => (suite, common),
            Self::Breakeven(Timed { suite, common }) => (suite, common),
        }
    }
}

/// Runs a subcommand of the benchmark.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::All(args) => all::run(&args.suite, &args.common),
        Command::Suite(suite) => {
            let (suite, common) = suite.parts();
            let mut run = Run::open(common)?;
            let done = suite.run(&mut run);
            run.finish(done)
        }
        Command::Peers(args) => {
            let mut run = Run::without_device("peers", &args.shared);
            let done = run::Suite::run(&args.peers, &mut run);
            run.finish(done)
        }
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
    }
}
