//! temporary
#[path = "../src/bin/nearfield/bench/mod.rs"]
mod bench;
use clap::Parser;
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: bench::Args,
}
fn main() -> anyhow::Result<()> {
    bench::run(Cli::parse().args)
}
