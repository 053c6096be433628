//! The programs of a cluster: the scheduler and the executors of Ballista, the workers of datafusion-distributed, and a client of both.

mod client;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Nearest neighbours in SQL on many machines.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Ballista, for long jobs over Parquet files:
  nearfield-cluster scheduler
  NEARFIELD_ADAPTER=0 nearfield-cluster executor --scheduler localhost:50050
  NEARFIELD_ADAPTER=1 nearfield-cluster executor --scheduler localhost:50050 --port 50053
  nearfield-cluster sql --scheduler df://localhost:50050 --table docs=/data/docs.parquet \\
    \"SELECT id, rank FROM knn(docs, embedding, [0.1, 0.7, 0.2], 10)\"

datafusion-distributed, for searches of saved indexes that stay in memory:
  NEARFIELD_ADAPTER=0 nearfield-cluster worker --port 50060
  NEARFIELD_ADAPTER=1 nearfield-cluster worker --port 50061
  nearfield-cluster sql --workers http://localhost:50060,http://localhost:50061 \\
    \"SELECT id, _distance FROM knn_index('/indexes', [0.1, 0.7, 0.2], 10)\"

RUST_LOG=info shows what the engines tell. Without it programs show warnings, and `sql` nothing.
NEARFIELD_ADAPTER names the device of an executor or worker, by its number or part of its name: one process for each GPU.
No connection is encrypted, and whoever reaches a port can run statements: keep them in a network of your own."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a scheduler of Ballista, which plans statements and deals their tasks out to executors.
    Scheduler(serve::Scheduler),
    /// Runs an executor of Ballista, which searches what its scheduler tells it.
    Executor(serve::Executor),
    /// Runs a worker of datafusion-distributed, which keeps saved indexes in memory.
    Worker(serve::Worker),
    /// Runs statements on a cluster, and prints their answers.
    Sql(client::Sql),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes in one line. Errors of DataFusion say their causes themselves.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(cli: Cli) -> anyhow::Result<()> {
    // A client prints what goes wrong itself.
    let level = if matches!(cli.command, Command::Sql(_)) { "off" } else { "warn" };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
    // Plans of many terms are walked by recursion, and Ballista's own programs have stacks of this size.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Scheduler(scheduler) => scheduler.run().await,
            Command::Executor(executor) => executor.run().await,
            Command::Worker(worker) => worker.run().await,
            Command::Sql(sql) => sql.run().await,
        }
    })
}
