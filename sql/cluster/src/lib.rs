//! Nearest neighbours in SQL on many machines: [`nearfield_datafusion`] in two engines that exist.
//!
//! - [`batch`]: [Ballista](https://datafusion.apache.org/ballista/), for long jobs over Parquet files. It knows its executors, and gives the
//!   tasks of one that is lost to others.
//! - [`online`]: [datafusion-distributed](https://github.com/datafusion-contrib/datafusion-distributed), for searches of saved indexes that
//!   stay in the memory of workers: each index is searched by the worker that has it.
//!
//! Both answer as one machine does. The program `nearfield-cluster` of this package runs both; `docs/cluster.md` in the repository shows how.

pub mod batch;
pub mod online;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::prelude::DataFrame;

/// The bytes of the largest message between two machines: plans have the queries of a statement.
const MESSAGE_BYTES: usize = 64 << 20;

/// The batches of an answer. One without rows has a batch too, which tells its columns.
async fn collected(frame: DataFrame) -> Result<Vec<RecordBatch>> {
    let schema = frame.schema().inner().clone();
    let mut batches = frame.collect().await?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(batches)
}
