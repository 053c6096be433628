//! The programs that wait for work.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::scheduler_process::start_server;
use clap::Args;
use nearfield_cluster::{batch, online};
use nearfield_datafusion::{NearfieldOptions, set_resident_limit};
use tokio::net::TcpStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// The longest time that an executor waits for its scheduler.
const SCHEDULER: Duration = Duration::from_secs(20);
/// The longest time of one attempt to reach it: an address that drops packets would take minutes.
const CONNECT: Duration = Duration::from_secs(5);
/// One GiB, the unit of `--resident`.
const GIB: f64 = (1u64 << 30) as f64;

/// Errors where another program listens at an address. Ballista's own error does not name it.
fn check_free(address: SocketAddr) -> anyhow::Result<()> {
    TcpListener::bind(address).map(drop).with_context(|| format!("cannot listen at {address}"))
}

/// Opens the device now, so that a wrong name is no error of the first statement, and describes it.
fn opened_device() -> anyhow::Result<String> {
    Ok(NearfieldOptions::default().open().context("NEARFIELD_ADAPTER")?.describe())
}

/// Waits until something listens at the address of a scheduler, which may start after its executors.
async fn wait_for(scheduler: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut is_told = false;
    loop {
        let error = match tokio::time::timeout(CONNECT, TcpStream::connect(scheduler)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(timeout) => timeout.into(),
        };
        if start.elapsed() > SCHEDULER {
            return Err(error).with_context(|| format!("no scheduler at {scheduler}"));
        }
        if !is_told {
            eprintln!("waiting for a scheduler at {scheduler}: {error}");
            is_told = true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

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
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
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
        let address = SocketAddr::new(self.bind, self.port);
        check_free(address)?;
        eprintln!("scheduler at {address}");
        start_server(cluster, address, Arc::new(config))
            .await
            .with_context(|| format!("scheduler at {address}"))
    }
}

/// Reads `--resident`, in bytes.
fn gib(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..f64::INFINITY).contains(&number) => Ok((number * GIB) as u64),
        _ => Err("needed a number of GiB from 0".into()),
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
    /// The name by which other machines reach this one [default: the address to listen at; with --bind 0.0.0.0, that of its
    /// connection to the scheduler]
    #[arg(long)]
    host: Option<String>,
    /// Tasks at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    tasks: Option<NonZeroUsize>,
    /// The folder for what tasks hand on to each other [default: a temporary one]
    #[arg(long, value_name = "FOLDER")]
    work: Option<String>,
    /// Seconds between two reports to the scheduler
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat: u64,
    /// GiB of saved indexes that stay in memory between statements; those used longest ago leave first
    #[arg(long, value_name = "GIB", default_value = "8", value_parser = gib)]
    resident: u64,
}

impl Executor {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        set_resident_limit(self.resident);
        let (scheduler_host, scheduler_port) = self
            .scheduler
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
            .with_context(|| format!("--scheduler: needed host:port, given {:?}", self.scheduler))?;
        let defaults = batch::executor_config();
        if let Some(folder) = &self.work {
            std::fs::create_dir_all(folder).with_context(|| format!("--work {folder}"))?;
        }
        let config = ExecutorProcessConfig {
            bind_host: self.bind.to_string(),
            // Without a name the scheduler takes the address that it sees. Nobody else reaches an executor at 0.0.0.0.
            external_host: self.host.or_else(|| (!self.bind.is_unspecified()).then(|| self.bind.to_string())),
            port: self.port,
            grpc_port: self.port.checked_add(1).context("--port: needed a port below 65535")?,
            scheduler_host,
            scheduler_port,
            // Ballista's own time limit never ends.
            scheduler_connect_timeout_seconds: 0,
            vcores: self.tasks.map_or(defaults.vcores, NonZeroUsize::get),
            work_dir: self.work,
            executor_heartbeat_interval_seconds: self.heartbeat,
            ..defaults
        };
        for port in [self.port, config.grpc_port] {
            check_free(SocketAddr::new(self.bind, port))?;
        }
        let device = opened_device()?;
        wait_for(&self.scheduler).await?;
        eprintln!(
            "executor at {}:{}, of the scheduler at {}: {device}",
            self.bind, self.port, self.scheduler
        );
        start_executor_process(Arc::new(config))
            .await
            .with_context(|| format!("executor of the scheduler at {}", self.scheduler))
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
    /// GiB of saved indexes that stay in memory between statements; those used longest ago leave first
    #[arg(long, value_name = "GIB", default_value = "8", value_parser = gib)]
    resident: u64,
}

impl Worker {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        set_resident_limit(self.resident);
        let address = SocketAddr::new(self.bind, self.port);
        let device = opened_device()?;
        let listener = TcpIncoming::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        eprintln!("worker at {address}: {device}");
        let server = Server::builder().add_service(online::worker().into_worker_server());
        let stop = async {
            // Without a handler of the signal the worker serves until it is killed.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server
            .serve_with_incoming_shutdown(listener.with_nodelay(Some(true)), stop)
            .await
            .with_context(|| format!("worker at {address}"))
    }
}
