//! `nearfield bench`: the one benchmark runner (docs/benchmark.md). A suite verifies its answers before it times them, and is
//! held against ceilings of the same run.

mod all;
mod answers;
mod breakeven;
mod case;
mod ceilings;
mod compare;
mod data;
mod distance;
mod exact;
mod gpu;
mod ivf;
mod lines;
mod peers;
mod reduce;
mod report;
mod run;
mod select;
mod stages;
mod times;
mod units;
mod words;
mod work;

use clap::{Args as ClapArgs, Subcommand};

use run::{Common, Run, Shared};

/// Arguments of `nearfield bench`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All suites, in sizes that suit the device
    #[command(after_long_help = all::HELP)]
    All(Timed<all::Args>),
    #[command(flatten)]
    Suite(Suite),
    /// Other libraries at the same work, through Python: numpy, faiss, usearch, PyTorch, cuVS
    #[command(after_long_help = peers::HELP)]
    Peers(Peers),
    /// The figures of one or more runs as an HTML page, as Markdown tables, or as a chart
    Report(report::Args),
    /// Compare two runs case by case
    Compare(compare::Args),
}

/// A suite, which times something.
#[derive(Debug, Subcommand)]
enum Suite {
    /// Distances of all pairs of two sets that lie on the device
    #[command(after_long_help = distance::HELP)]
    Distance(Timed<distance::Args>),
    /// Reductions, or the ladder of the dot product: time on the device and in all, bytes a second, error
    #[command(after_long_help = reduce::HELP)]
    Reduce(Timed<reduce::Args>),
    /// The smallest elements of rows: time on the device and in all, bytes a second
    #[command(after_long_help = select::HELP)]
    Select(Timed<select::Args>),
    /// Exact search: wall clock, stages on the device, upload, and the ceilings of this adapter
    #[command(after_long_help = exact::HELP)]
    Exact(Timed<exact::Args>),
    /// Search in lists: building an index, recall against queries a second over probes
    #[command(after_long_help = ivf::HELP)]
    Ivf(Timed<ivf::Args>),
    /// Exact search on a GPU and on the processor, side by side: from how much work on which is ahead
    #[command(after_long_help = breakeven::HELP)]
    Breakeven(Timed<breakeven::Args>),
}

/// A suite's own arguments, and those that all have.
#[derive(Debug, ClapArgs)]
struct Timed<A: ClapArgs> {
    #[command(flatten)]
    suite: A,
    #[command(flatten)]
    common: Common,
}

/// The arguments of the peers, which need no device of ours.
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
