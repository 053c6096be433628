//! `nearfield`: exact nearest-neighbour search on any GPU, from the command line.

mod arguments;
mod bench;
mod build;
mod demo;
mod device;
mod files;
mod generate;
mod info;
mod memory;
mod output;
mod progress;
mod recall;
mod recipe;
mod search;
mod truth;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  nearfield demo                                    search real data that comes with the program
  nearfield info                                    which devices there are, which one is taken
  nearfield search --rows base.npy --queries q.npy  search your own files

Environment:
  NEARFIELD_ADAPTER  what to take where --device names nothing: host, gpu, software, or a part of an adapter's name
  WGPU_BACKEND       vulkan, metal, dx12 or gl: the only interface to look for adapters in

The exit code is 0 after success, 2 when the arguments cannot be read, and 1 after any other \
failure. A failure is told in one line on stderr.";

/// Exact nearest-neighbour search on any GPU (Metal, Vulkan and DX12 through wgpu, no CUDA), or on the processor
#[derive(Debug, Parser)]
#[command(name = "nearfield", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// What a subcommand is for stands beside its arguments: a comment here would take the place of its long help.
#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Args),
    Search(search::Args),
    Build(build::Args),
    Demo(demo::Args),
    Generate(generate::Args),
    Truth(truth::Args),
    Verify(verify::Args),
    /// Verify, then time
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::refuse(&error),
    };
    let done = match cli.command {
        Command::Info(args) => info::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Truth(args) => truth::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has read enough: `nearfield info | head -1` is no failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::one_line(&error));
            ExitCode::FAILURE
        }
    }
}
