//! `nearfield`: exact nearest-neighbour search on any GPU, from the command line.

mod build;
mod change;
mod completions;
mod demo;
mod info;
mod kmeans;
mod pairwise;
mod reduce;
mod search;
mod show;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nearfield_cli::terminal::run;
use pairwise::{dedup, graph, pairs};

const EXAMPLES: &str = "\
Examples:
  nearfield demo                                    search real data that the program contains
  nearfield info                                    list the devices, and which one is used
  nearfield search --rows base.npy --queries q.npy  search your own files

Environment:
  NEARFIELD_ADAPTER  device to use without --device: host, gpu, software, the index of an adapter, or a part of its name
  NEARFIELD_CACHE    directory for compiled kernels, which nobody else may write to; empty for none
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
    Graph(graph::Args),
    Pairs(pairs::Args),
    Dedup(dedup::Args),
    Build(build::Args),
    Add(change::AddArgs),
    Update(change::UpdateArgs),
    Remove(change::RemoveArgs),
    Merge(change::MergeArgs),
    Checkpoint(change::CheckpointArgs),
    Show(show::Args),
    Kmeans(kmeans::Args),
    Reduce(reduce::Args),
    Demo(demo::Args),
    Tune(tune::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    run(|cli: Cli| match cli.command {
        Command::Info(args) => info::run(&args),
        Command::Search(args) => args.threads.run(|| search::run(&args)),
        Command::Graph(args) => args.given.threads.run(|| graph::run(&args)),
        Command::Pairs(args) => args.given.threads.run(|| pairs::run(&args)),
        Command::Dedup(args) => args.given.threads.run(|| dedup::run(&args)),
        Command::Build(args) => args.threads.run(|| build::run(&args)),
        Command::Add(args) => args.index.threads.run(|| change::add(&args)),
        Command::Update(args) => args.index.threads.run(|| change::update(&args)),
        Command::Remove(args) => args.index.threads.run(|| change::remove(&args)),
        Command::Merge(args) => args.index.threads.run(|| change::merge(&args)),
        Command::Checkpoint(args) => args.index.threads.run(|| change::checkpoint(&args)),
        Command::Show(args) => show::run(&args),
        Command::Kmeans(args) => args.threads.run(|| kmeans::run(&args)),
        Command::Reduce(args) => args.threads.run(|| reduce::run(&args)),
        Command::Demo(args) => demo::run(&args),
        Command::Tune(args) => args.threads.run(|| tune::run(&args)),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => completions::man(&args, Cli::command()),
    })
}
