//! `nearfield-bench`: the benchmark (docs/benchmark.md). A suite verifies its answers before it times them, and compares its
//! times with ceilings measured in the same run.

mod all;
mod allowed;
mod answers;
mod case;
mod ceilings;
mod compare;
mod data;
mod durable;
mod generate;
mod gpu;
mod lines;
mod peers;
mod report;
mod run;
mod soak;
mod step;
mod suites;
mod times;
mod told;
mod truth;
mod units;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nearfield_cli::terminal;
use run::Common;
use step::{Step, Timed};

const EXAMPLES: &str = "\
Examples:
  nearfield-bench all --report out                             check, then time everything; charts in out/index.html
  nearfield-bench exact --count 1000000 --dim 768 --batch 1,1024
  nearfield-bench soak --minutes 10                            random lives of indexes beside a model

NEARFIELD_ADAPTER, NEARFIELD_CACHE, WGPU_BACKEND and the exit code mean what `nearfield --help` says.";

/// Time nearfield on this machine, and check every answer that is timed
#[derive(Debug, Parser)]
#[command(name = "nearfield-bench", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// The texts of some commands are beside their arguments. A comment here would replace their long help.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run all suites, in sizes that suit the device
    #[command(after_long_help = all::HELP)]
    All(Timed<all::Args, Common>),
    #[command(flatten)]
    Step(Box<Step>),
    /// The figures of one or more runs as an HTML page or as Markdown tables
    Report(report::Args),
    /// Compare two runs case by case
    Compare(compare::Args),
    Generate(generate::Args),
    Truth(truth::Args),
    Verify(verify::Args),
    Durable(durable::Args),
    Soak(soak::Args),
}

fn main() -> ExitCode {
    terminal::run(|cli: Cli| match cli.command {
        Command::All(args) => all::run(&args.own, &args.common),
        Command::Step(step) => step.run(),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Truth(args) => truth::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Durable(args) => durable::run(&args),
        Command::Soak(args) => soak::run(&args),
    })
}
