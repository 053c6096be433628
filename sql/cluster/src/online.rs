//! datafusion-distributed with nearest neighbours: its workers, and a session that sends them the parts of statements.
//!
//! ```no_run
//! # async fn example() -> datafusion::common::Result<()> {
//! use nearfield_cluster::online::{Session, Workers};
//!
//! let workers = Workers::watch(["http://gpu-1:50060", "http://gpu-2:50060"])?;
//! let session = Session::new(workers)?;
//! session.run("SELECT id, _distance FROM knn_index('/indexes', [0.1, 0.7, 0.2], 10)").await?;
//! # Ok(())
//! # }
//! ```

mod channels;
mod session;
mod shards;
mod stages;
mod workers;

pub use session::{Session, worker};
pub use workers::Workers;
