//! Nearest neighbours in SQL: [nearfield](https://docs.rs/nearfield) in DataFusion, on one machine or many.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::common::Result<()> {
//! let context = nearfield_datafusion::context();
//! context.sql("CREATE TABLE rows AS VALUES (1, [0.0, 1.0]), (2, [1.0, 1.0])").await?;
//! context.sql("SELECT * FROM knn(rows, column2, [1.0, 0.9], 1, 'l2')").await?.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Answers are exact: those of `ORDER BY` the scalar function, whichever device searches. `docs/sql.md` in the repository has all functions.

mod codec;
mod error;
mod exec;
mod functions;
mod index_paths;
mod metric;
mod operators;
mod options;
mod plan;
mod resident;
mod search;
mod session;
mod tables;
mod vectors;

pub use codec::{KnnLogicalCodec, KnnPhysicalCodec};
pub use functions::{Distance, scalar_functions};
pub use index_paths::{paths_of, source_of_paths};
pub use nearfield::Metric;
pub use options::NearfieldOptions;
pub use plan::planner::{KnnPlanner, KnnQueryPlanner};
pub use resident::{resident_indexes, set_resident_limit};
pub use session::{config, context, register, table_functions, with_nearfield};
pub use tables::index_table::IndexTable;
