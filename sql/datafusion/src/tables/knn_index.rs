//! `knn_index(file, query, k [, probes])`

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use serde::{Deserialize, Serialize};

use crate::exec::index::{IndexSearch, KnnIndexExec};
use crate::exec::indexed::{FILE, ID};
use crate::exec::last::KnnFinalExec;
use crate::exec::source::Source;
use crate::metric::DISTANCE;
use crate::plan::node::own_fields;
use crate::search::near::Probes;
use crate::search::queries::Queries;
use crate::tables::arguments::Arguments;
use crate::tables::index_files::{index_files, paths_of_partitions};

/// The k nearest rows of a saved index, or of several together, to one query or several.
///
/// `file` is a file, a folder, whose files that end in `.nf` are searched, or several of either between commas. The answer has the columns
/// `id`, `file`, `query_index`, `rank` and `_distance`, which is the index's own (`l2`, `l2sq`, `cosine` or `ip`), in f32; rows of the same
/// distance come by their id. `probes` is the number of lists that an index with lists searches for a query. An index stays in memory for
/// later queries: see `nearfield.resident_bytes`.
#[derive(Debug)]
pub(crate) struct KnnIndexFunction;

impl TableFunctionImpl for KnnIndexFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments = Arguments::new("knn_index", "knn_index(file, query, k [, probes])", 3..=4, &args)?;
        let files =
            index_files(&arguments.name(0, "file")?).map_err(|error| error.context("knn_index: file"))?;
        let (queries, k) = (arguments.queries(1)?, arguments.k(2)?);
        let probes = (args.exprs().len() > 3).then(|| arguments.k(3)).transpose()?;
        let probes = probes.map_or(Probes::Default, Probes::Lists);
        Ok(Arc::new(KnnIndexTable { files, queries, k, probes }))
    }
}

/// A search of saved indexes as a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KnnIndexTable {
    files: Vec<String>,
    queries: Arc<Queries>,
    k: usize,
    probes: Probes,
}

#[async_trait]
impl TableProvider for KnnIndexTable {
    fn schema(&self) -> SchemaRef {
        let payload = [(ID, DataType::UInt64), (FILE, DataType::Utf8)];
        let payload = payload.map(|(name, kind)| -> FieldRef { Arc::new(Field::new(name, kind, false)) });
        Arc::new(Schema::new(payload.into_iter().chain(own_fields(DISTANCE)).collect::<Vec<_>>()))
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let search = IndexSearch {
            k: self.k,
            probes: self.probes,
            kept: vec![ID.into(), FILE.into()],
            kept_of_queries: vec![],
            is_rooted: false,
            indexed: None,
        };
        let source = Source::Given(self.queries.clone());
        let found = KnnIndexExec::new(paths_of_partitions(&self.files, session)?, source, search)?;
        let all: Arc<dyn ExecutionPlan> = Arc::new(KnnFinalExec::new(Arc::new(found), self.k)?);
        let Some(projection) = projection else { return Ok(all) };
        let columns = ProjectionExprs::from_indices(projection, &self.schema());
        Ok(Arc::new(ProjectionExec::try_new(columns.iter().cloned(), all)?))
    }
}
