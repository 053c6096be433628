//! The client: it runs statements on a cluster, and prints their answers.

use std::io::{Write, stdout};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield_cluster::{batch, online};
use nearfield_datafusion::IndexTable;

/// The time after which a statement takes long.
const LONG: Duration = Duration::from_secs(10);

#[derive(Args)]
#[command(after_help = "\
Examples:
  nearfield-cluster sql --scheduler df://localhost:50050 --table docs=/data/docs --table users=/data/users.parquet \\
    \"SELECT query_id, id FROM knn_join(users, taste, docs, embedding, 5)\"
  nearfield-cluster sql --workers http://gpu-1:50060,http://gpu-2:50060 --repeat 100 \\
    \"SELECT id, _distance FROM knn_index('/indexes', [0.1, 0.7, 0.2], 10)\"

Paths are those of the machines that search: a shared folder, or the same files on each.")]
pub(crate) struct Sql {
    /// The scheduler of Ballista, as df://host:port
    #[arg(long, conflicts_with = "workers", required_unless_present = "workers")]
    scheduler: Option<String>,
    /// The workers of datafusion-distributed, as http://host:port, between commas
    #[arg(long, value_delimiter = ',')]
    workers: Vec<String>,
    /// A table of a Parquet file, of a saved index (.nf), or of a folder of either
    #[arg(long, value_name = "NAME=PATH")]
    table: Vec<String>,
    /// Runs the last statement N times more, and prints the median of the times
    #[arg(long, value_name = "N", default_value_t = 0)]
    repeat: usize,
    /// Statements, run one after the other
    #[arg(required = true)]
    statements: Vec<String>,
}

enum Cluster {
    Batch(batch::Session),
    Online(online::Session),
}

impl Cluster {
    fn context(&self) -> &SessionContext {
        match self {
            Self::Batch(session) => session.context(),
            Self::Online(session) => session.context(),
        }
    }

    async fn run(&self, statement: &str) -> datafusion::common::Result<Vec<RecordBatch>> {
        match self {
            Self::Batch(session) => session.run(statement).await,
            Self::Online(session) => session.run(statement).await,
        }
    }

    /// Runs a statement, and says once when it takes long.
    async fn wait(&self, statement: &str) -> datafusion::common::Result<Vec<RecordBatch>> {
        let run = self.run(statement);
        tokio::pin!(run);
        match tokio::time::timeout(LONG, &mut run).await {
            Ok(answer) => answer,
            Err(_) => {
                let who = match self {
                    Self::Batch(_) => "executors: the scheduler waits for one if there is none",
                    Self::Online(_) => "workers",
                };
                eprintln!("no answer after {} s, waiting for the {who}", LONG.as_secs());
                run.await
            }
        }
    }
}

async fn register(context: &SessionContext, name: &str, path: &str) -> datafusion::common::Result<()> {
    if IndexTable::is_at(Path::new(path)) {
        context.register_table(name, Arc::new(IndexTable::open(path)?))?;
        return Ok(());
    }
    context.register_parquet(name, path, ParquetReadOptions::default()).await
}

impl Sql {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let cluster = match &self.scheduler {
            Some(scheduler) => {
                let session = batch::Session::connect(scheduler).await;
                Cluster::Batch(session.with_context(|| format!("--scheduler {scheduler}"))?)
            }
            None => Cluster::Online(online::Session::new(online::Workers::watch(&self.workers)?)?),
        };
        for table in &self.table {
            let Some((name, path)) = table.split_once('=') else {
                bail!("--table: needed NAME=PATH, given {table:?}");
            };
            register(cluster.context(), name, path).await.with_context(|| format!("--table {table}"))?;
        }
        for statement in &self.statements {
            let answer = cluster.wait(statement).await?;
            if answer.iter().any(|batch| batch.num_columns() > 0) {
                let format = FormatOptions::new().with_null("NULL");
                writeln!(stdout(), "{}", pretty_format_batches_with_options(&answer, &format)?)?;
            }
        }
        let Some(last) = self.statements.last().filter(|_| self.repeat > 0) else { return Ok(()) };
        let mut times = vec![];
        for _ in 0..self.repeat {
            let start = Instant::now();
            cluster.run(last).await?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let ms = |place: usize| times[place].as_secs_f64() * 1e3;
        eprintln!(
            "{} runs: median {:.1} ms, fastest {:.1}, slowest {:.1}",
            times.len(),
            ms(times.len() / 2),
            ms(0),
            ms(times.len() - 1)
        );
        Ok(())
    }
}
