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
mod machine;
mod peers;
mod report;
mod run;
mod stages;
mod step;
mod suites;
mod times;
mod units;
mod work;

use anyhow::Result;
use run::Common;
use step::{Step, Timed};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run all suites, in sizes that suit the device
    #[command(after_long_help = all::HELP)]
    All(Timed<all::Args, Common>),
    #[command(flatten)]
    Step(Step),
    /// The figures of one or more runs as an HTML page, as Markdown tables, or as a chart
    Report(report::Args),
    /// Compare two runs case by case
    Compare(compare::Args),
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::All(args) => all::run(&args.own, &args.common),
        Command::Step(step) => step.run(),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
    }
}
