//! The suites and the peers as commands, which `nearfield-bench all` runs too.

use anyhow::Result;
use clap::{Args, FromArgMatches, Subcommand};

use super::peers;
use super::run::{Common, Run, Shared, Suite};
use super::suites::{breakeven, distance, exact, graph, ivf, maxsim, reduce, select, serve};

/// A command that measures, with the arguments that all have.
#[derive(Debug, Subcommand)]
pub(super) enum Step {
    /// Time the distances of all pairs of two sets on the device
    #[command(after_long_help = distance::HELP)]
    Distance(Timed<distance::Args>),
    /// Time reductions
    #[command(after_long_help = reduce::HELP)]
    Reduce(Timed<reduce::Args>),
    /// Time the selection of the smallest elements of rows
    #[command(after_long_help = select::HELP)]
    Select(Timed<select::Args>),
    /// Time exact search, its stages on the device, and the upload
    #[command(after_long_help = exact::HELP)]
    Exact(Timed<exact::Args>),
    /// Time the neighbours of every row among the others, and all pairs within a radius
    #[command(after_long_help = graph::HELP)]
    Graph(Timed<graph::Args>),
    /// Time search in lists: building an index, recall and queries per second over probes
    #[command(after_long_help = ivf::HELP)]
    Ivf(Timed<ivf::Args>),
    /// Time exact search for documents of several tokens each, by MaxSim
    #[command(after_long_help = maxsim::HELP)]
    Maxsim(Timed<maxsim::Args>),
    /// Time exact search on a GPU and on the processor, to find how much work makes the GPU faster
    #[command(after_long_help = breakeven::HELP)]
    Breakeven(Timed<breakeven::Args>),
    /// Time searches of many callers at once: queries per second and latencies
    #[command(after_long_help = serve::HELP)]
    Serve(Timed<serve::Args>),
    /// Time other libraries at the same work, through Python: numpy, faiss, usearch, hnswlib, PyTorch, cuVS
    #[command(after_long_help = peers::HELP)]
    Peers(Timed<peers::Args, Shared>),
}

/// The arguments of a command, and those it has in common with others. Peers need no device.
#[derive(Debug, Args)]
pub(super) struct Timed<A: Args, C: Args = Common> {
    #[command(flatten)]
    pub(super) own: A,
    #[command(flatten)]
    pub(super) common: C,
}

impl Step {
    /// Reads the words after `nearfield-bench`.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let command = Self::augment_subcommands(clap::Command::new("bench").no_binary_name(true));
        Ok(Self::from_arg_matches(&command.try_get_matches_from(words)?)?)
    }

    pub(super) fn suite(&self) -> &dyn Suite {
        self.parts().0
    }

    fn parts(&self) -> (&dyn Suite, Option<&Common>, &Shared) {
        fn of<A: Args + Suite>(timed: &Timed<A>) -> (&dyn Suite, Option<&Common>, &Shared) {
            (&timed.own, Some(&timed.common), &timed.common.shared)
        }
        match self {
            Self::Distance(timed) => of(timed),
            Self::Reduce(timed) => of(timed),
            Self::Select(timed) => of(timed),
            Self::Exact(timed) => of(timed),
            Self::Graph(timed) => of(timed),
            Self::Maxsim(timed) => of(timed),
            Self::Ivf(timed) => of(timed),
            Self::Breakeven(timed) => of(timed),
            Self::Serve(timed) => of(timed),
            Self::Peers(timed) => (&timed.own, None, &timed.common),
        }
    }

    pub(super) fn run(&self) -> Result<()> {
        let (suite, common, shared) = self.parts();
        let mut run = common.map_or_else(|| Run::without_device("peers", shared), Run::open)?;
        let done = run.check(suite.takes_places()).and_then(|()| suite.run(&mut run));
        run.finish(done)
    }
}
