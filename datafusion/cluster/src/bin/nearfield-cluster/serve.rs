//! The programs that wait for work.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::scheduler_process::start_server;
use clap::Args;
use nearfield_cluster::{batch, online};
use tonic::transport::Server;

/// One GiB, the unit of `--resident`.
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Args)]
pub(crate) struct Scheduler {
    /// The address to listen at; 0.0.0.0 for all of the machine's
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The port to listen at
    #[arg(long, default_value_t = 50050)]
    port: u16,
    /// The name by which executors and clients reach this machine
    #[arg(long, default_value = "localhost")]
    host: String,
    /// Seconds of silence after which an executor counts as lost
    #[arg(long, default_value_t = 20)]
    patience: u64,
}

impl Scheduler {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut config = batch::scheduler_config();
        config.external_host = self.host;
        config.bind_host = self.bind.to_string();
        config.bind_port = self.port;
        config.executor_timeout_seconds = self.patience;
        config.no_executors_grace_period_seconds = self.patience;
        let cluster = BallistaCluster::new_from_config(&config).await?;
        eprintln!("scheduler at {}:{}", self.bind, self.port);
        start_server(cluster, (self.bind, self.port).into(), Arc::new(config)).await?;
        Ok(())
    }
}

/// How much of saved indexes stays in memory.
#[derive(Args)]
struct Resident {
    /// GiB of saved indexes that stay in memory between statements; those used longest ago leave first
    #[arg(long, value_name = "GIB", default_value_t = 8.0)]
    resident: f64,
}

impl Resident {
    fn set(&self) {
        // Negative numbers and those that are none become 0.
        nearfield_datafusion::set_resident_limit((self.resident * GIB) as u64);
    }
}

#[derive(Args)]
pub(crate) struct Executor {
    /// The scheduler, as host:port
    #[arg(long, default_value = "localhost:50050")]
    scheduler: String,
    /// The address to listen at; 0.0.0.0 for all of the machine's
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The port to listen at for results; the next one is for tasks
    #[arg(long, default_value_t = 50051)]
    port: u16,
    /// The name by which other machines reach this one [default: the address to listen at]
    #[arg(long)]
    host: Option<String>,
    /// Tasks at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// The folder for what tasks hand on to each other [default: a temporary one]
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,
    /// Seconds between two reports to the scheduler
    #[arg(long, default_value_t = 5)]
    heartbeat: u64,
    #[command(flatten)]
    resident: Resident,
}

impl Executor {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.resident.set();
        let (scheduler_host, scheduler_port) = self
            .scheduler
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
            .with_context(|| format!("--scheduler: needed host:port, given {:?}", self.scheduler))?;
        let defaults = batch::executor_config();
        let work_dir = match self.work {
            Some(folder) => {
                std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
                Some(folder.into_os_string().into_string().map_err(|name| {
                    anyhow::anyhow!("--work: needed a name in UTF-8, given {}", name.display())
                })?)
            }
            None => None,
        };
        let config = ExecutorProcessConfig {
            bind_host: self.bind.to_string(),
            external_host: Some(self.host.unwrap_or_else(|| self.bind.to_string())),
            port: self.port,
            grpc_port: self.port.checked_add(1).context("--port: needed a port below 65535")?,
            scheduler_host,
            scheduler_port,
            scheduler_connect_timeout_seconds: 20,
            vcores: self.tasks.unwrap_or(defaults.vcores).max(1),
            work_dir,
            executor_heartbeat_interval_seconds: self.heartbeat.max(1),
            ..defaults
        };
        eprintln!("executor at {}:{}, of the scheduler at {}", self.bind, self.port, self.scheduler);
        start_executor_process(Arc::new(config)).await?;
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Worker {
    /// The address to listen at; 0.0.0.0 for all of the machine's
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The port to listen at
    #[arg(long, default_value_t = 50060)]
    port: u16,
    #[command(flatten)]
    resident: Resident,
}

impl Worker {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.resident.set();
        let address = (self.bind, self.port).into();
        eprintln!("worker at {address}");
        let server = Server::builder().add_service(online::worker().into_worker_server());
        let stop = async {
            // Without a handler of the signal the worker serves until it is killed.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server.serve_with_shutdown(address, stop).await.with_context(|| format!("cannot serve at {address}"))
    }
}
