//! `nearfield`: exact nearest-neighbour search on any GPU, from the command line.

mod bench;
mod build;
mod completions;
mod demo;
mod generate;
mod given;
mod info;
mod kmeans;
mod memory;
mod recipe;
mod reduce;
mod search;
mod show;
mod soak;
#[cfg_attr(not(feature = "sql"), path = "sql/absent.rs")]
mod sql;
mod terminal;
mod truth;
mod tune;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use given::device;
use terminal::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  nearfield demo                                    search real data that the program contains
  nearfield info                                    list the devices, and which one is used
  nearfield search --rows base.npy --queries q.npy  search your own files

Environment:
  NEARFIELD_ADAPTER  device to use without --device: host, gpu, software, the index of an adapter, or a part of its name
  NEARFIELD_CACHE    directory for compiled kernels; empty for none
  WGPU_BACKEND       the only graphics interface to use: vulkan, metal, dx12 or gl

The exit code is 0 on success, 2 for wrong arguments, and 1 for any other failure. A failure prints one line on stderr.";

/// Exact nearest-neighbour search on any GPU (Metal, Vulkan and DX12 through wgpu, no CUDA), or on the processor
#[derive(Debug, Parser)]
#[command(name = "nearfield", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// The texts of subcommands are beside their arguments. A comment here would replace the long help.
#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Args),
    Search(search::Args),
    Build(build::Args),
    Show(show::Args),
    Kmeans(kmeans::Args),
    Reduce(reduce::Args),
    #[cfg_attr(not(feature = "sql"), command(hide = true))]
    Sql(sql::Args),
    Demo(demo::Args),
    Generate(generate::Args),
    Truth(truth::Args),
    Tune(tune::Args),
    Verify(verify::Args),
    Soak(soak::Args),
    /// Verify, then time
    Bench(bench::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    // Before anything else: it needs a process without other threads.
    #[cfg(target_os = "linux")]
    device::look_for_no_display();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::refuse(&error),
    };
    if let Err(error) = interrupt::clean_up() {
        output::complain(&format!("signals: {error}"));
        return ExitCode::FAILURE;
    }
    let done = match cli.command {
        Command::Info(args) => info::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Kmeans(args) => kmeans::run(&args),
        Command::Reduce(args) => reduce::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Truth(args) => truth::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => completions::man(&args, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader left early: `nearfield info | head -1` is no failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::one_line(&device::in_words(error)));
            ExitCode::FAILURE
        }
    }
}
