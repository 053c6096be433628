//! `knn_index(file, query, k [, probes])`

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::exec::index::{IndexSearch, KnnIndexExec};
use crate::exec::index_paths::source_of_paths;
use crate::exec::last::KnnFinalExec;
use crate::plan::node::own_fields;
use crate::tables::arguments::Arguments;

const USAGE: &str = "knn_index(file, query, k [, probes])";

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
        let arguments = Arguments::new("knn_index", USAGE, 3..=4, &args)?;
        let files = files_of(&arguments.name(0, "file")?)?;
        let (queries, k) = (arguments.queries(1)?, arguments.k(2)?);
        let probes = (args.exprs().len() > 3).then(|| arguments.k(3)).transpose()?;
        Ok(Arc::new(KnnIndexTable::new(files, IndexSearch { queries, k, probes })))
    }
}

/// The index files that a text names, in the order of their names.
fn files_of(text: &str) -> Result<Vec<String>> {
    let mut files: Vec<PathBuf> = vec![];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let path = Path::new(part);
        if !path.is_dir() {
            files.push(path.to_owned());
            continue;
        }
        let mut inside: Vec<PathBuf> = path
            .read_dir()
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(|error| plan_datafusion_err!("knn_index: file: {part}: {error}"))?;
        inside.retain(|path| path.extension().is_some_and(|extension| extension == "nf"));
        inside.sort();
        if inside.is_empty() {
            return plan_err!("knn_index: file: needed index files (.nf), there are none in {part}");
        }
        files.extend(inside);
    }
    if files.is_empty() {
        return plan_err!("knn_index: file: needed a file, given {text:?}");
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let text = |file: PathBuf| {
        file.into_os_string()
            .into_string()
            .map_err(|name| plan_datafusion_err!("knn_index: file: needed a name in UTF-8, given {name:?}"))
    };
    files.into_iter().map(text).collect()
}

/// A search of saved indexes as a table.
#[derive(Debug)]
pub(crate) struct KnnIndexTable {
    files: Vec<String>,
    wanted: IndexSearch,
    schema: SchemaRef,
}

impl KnnIndexTable {
    pub(crate) fn new(files: Vec<String>, wanted: IndexSearch) -> Self {
        let payload = [("id", DataType::UInt64), ("file", DataType::Utf8)];
        let payload =
            payload.map(|(name, data_type)| -> FieldRef { Arc::new(Field::new(name, data_type, false)) });
        let fields: Vec<FieldRef> = payload.into_iter().chain(own_fields()).collect();
        Self { files, wanted, schema: Arc::new(Schema::new(fields)) }
    }

    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    pub(crate) fn wanted(&self) -> &IndexSearch {
        &self.wanted
    }
}

#[async_trait]
impl TableProvider for KnnIndexTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
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
        // A partition searches its files one after the other: all at once would load all.
        let at_once = session.config().target_partitions().clamp(1, self.files.len().max(1));
        let partition = |number: usize| self.files.iter().skip(number).step_by(at_once).cloned().collect();
        let files = source_of_paths(&(0..at_once).map(partition).collect::<Vec<_>>())?;
        let found = Arc::new(KnnIndexExec::new(files, self.wanted.clone()));
        let all: Arc<dyn ExecutionPlan> = Arc::new(KnnFinalExec::new(found, self.wanted.k)?);
        let Some(projection) = projection else { return Ok(all) };
        let column = |&place: &usize| {
            let name = self.schema.field(place).name();
            ProjectionExpr::new(Arc::new(Column::new(name, place)), name.clone())
        };
        Ok(Arc::new(ProjectionExec::try_new(projection.iter().map(column).collect::<Vec<_>>(), all)?))
    }
}
