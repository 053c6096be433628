//! Sends searches to other machines, as parts of DataFusion's plans.
//!
//! A cluster has codecs of its own. Those here encode what this crate has, and hand everything else to the cluster's.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_datafusion_err, internal_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Extension, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;

use crate::exec::index::{IndexSearch, KnnIndexExec};
use crate::exec::index_scan::{IndexScanExec, Indexed};
use crate::exec::last::KnnFinalExec;
use crate::exec::nearest::{KnnNearestExec, Narrowing};
use crate::exec::partial::KnnPartialExec;
use crate::exec::places::KnnPlacesExec;
use crate::exec::source::{QueryOrder, Source};
use crate::metric::Metric;
use crate::plan::node::{Asked, Knn, Wanted};
use crate::search::near::{Near, Probes};
use crate::search::queries::Queries;
use crate::tables::index_table::IndexTable;
use crate::tables::knn_index::{self, KnnIndexTable};

/// Comes before every message, and tells it from those of other codecs.
const MAGIC: &[u8] = b"nearfield";
/// Follows it.
const VERSION: u8 = 1;

#[derive(Clone, PartialEq, Message)]
struct QueriesMessage {
    #[prost(uint64, tag = "1")]
    dim: u64,
    #[prost(double, repeated, tag = "2")]
    values: Vec<f64>,
    #[prost(uint64, repeated, tag = "3")]
    numbers: Vec<u64>,
}

/// A search of rows: the operator beside them, or the logical one.
#[derive(Clone, PartialEq, Message)]
struct KnnMessage {
    #[prost(string, tag = "1")]
    column: String,
    #[prost(uint64, tag = "2")]
    k: u64,
    #[prost(string, tag = "3")]
    metric: String,
    #[prost(string, repeated, tag = "4")]
    kept: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    kept_of_queries: Vec<String>,
    /// Queries of the statement; without them, those of a table.
    #[prost(message, optional, tag = "6")]
    given: Option<QueriesMessage>,
    #[prost(string, tag = "7")]
    query_column: String,
    /// Of the operator alone: the files of the table in their order.
    #[prost(string, repeated, tag = "8")]
    files: Vec<String>,
    /// Of the operator alone: whether the queries of a table have places.
    #[prost(bool, tag = "9")]
    has_places: bool,
}

/// A search of saved indexes: the operator, whose files its input names, or the table with its files.
#[derive(Clone, PartialEq, Message)]
struct IndexMessage {
    /// Queries of the statement; without them, those of a table.
    #[prost(message, optional, tag = "1")]
    given: Option<QueriesMessage>,
    #[prost(uint64, tag = "2")]
    k: u64,
    /// 0 stands for all lists.
    #[prost(uint64, optional, tag = "3")]
    probes: Option<u64>,
    #[prost(string, repeated, tag = "4")]
    files: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    kept: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    kept_of_queries: Vec<String>,
    #[prost(bool, tag = "7")]
    is_rooted: bool,
    #[prost(uint64, tag = "8")]
    dim: u64,
    #[prost(string, tag = "9")]
    query_column: String,
    #[prost(bool, tag = "10")]
    has_places: bool,
}

/// A table of saved indexes, with its files, or the operator that reads it.
#[derive(Clone, PartialEq, Message)]
struct ScanMessage {
    #[prost(string, repeated, tag = "1")]
    files: Vec<String>,
    #[prost(string, tag = "2")]
    metric: String,
    #[prost(uint64, tag = "3")]
    dim: u64,
    #[prost(uint64, tag = "4")]
    rows: u64,
    #[prost(uint64, repeated, tag = "5")]
    projection: Vec<u64>,
    #[prost(message, optional, tag = "6")]
    near: Option<NearMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct NearMessage {
    #[prost(message, optional, tag = "1")]
    query: Option<QueriesMessage>,
    #[prost(string, tag = "2")]
    metric: String,
    #[prost(uint64, tag = "3")]
    k: u64,
    #[prost(bool, tag = "4")]
    is_distinct: bool,
}

/// What the operator below a sort narrows by, or why it does not.
#[derive(Clone, PartialEq, Message)]
struct NearestMessage {
    /// The message of DataFusion for the key.
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
    #[prost(uint64, tag = "4")]
    k: u64,
    #[prost(bool, tag = "5")]
    is_distinct: bool,
    #[prost(string, optional, tag = "6")]
    not_used: Option<String>,
}

impl NearestMessage {
    fn new(
        nearest: &KnnNearestExec,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Self> {
        let Narrowing { by, k, is_distinct } = match nearest.narrowing() {
            Ok(narrowing) => narrowing,
            Err(why) => return Ok(Self { not_used: Some(why.to_owned()), ..Self::default() }),
        };
        Ok(Self {
            key: converter.physical_expr_to_proto(&by.expr, codec)?.encode_to_vec(),
            descending: by.options.descending,
            nulls_first: by.options.nulls_first,
            k: *k as u64,
            is_distinct: *is_distinct,
            not_used: None,
        })
    }

    fn operator(
        self,
        input: Arc<dyn ExecutionPlan>,
        context: &PhysicalPlanDecodeContext<'_>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<KnnNearestExec> {
        if let Some(why) = self.not_used {
            return Ok(KnnNearestExec::not_used(input, why));
        }
        let key = PhysicalExprNode::decode(&*self.key)
            .map_err(|error| internal_datafusion_err!("the key of a sort was not decoded: {error}"))?;
        let expr = converter.proto_to_physical_expr(&key, &input.schema(), context)?;
        let options = SortOptions { descending: self.descending, nulls_first: self.nulls_first };
        let by = PhysicalSortExpr { expr, options };
        KnnNearestExec::new(input, Narrowing { by, k: number(self.k)?, is_distinct: self.is_distinct })
    }
}

/// The places of queries in these files.
#[derive(Clone, PartialEq, Message)]
struct PlacesMessage {
    #[prost(string, repeated, tag = "1")]
    files: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Knn(KnnMessage),
    #[prost(uint64, tag = "2")]
    FinalK(u64),
    #[prost(message, tag = "3")]
    Index(IndexMessage),
    #[prost(message, tag = "4")]
    Places(PlacesMessage),
    #[prost(message, tag = "5")]
    Nearest(NearestMessage),
    #[prost(message, tag = "6")]
    Scan(ScanMessage),
}

#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<Kind>,
}

fn encode(kind: Kind, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.extend_from_slice(MAGIC);
    buffer.push(VERSION);
    let message = NodeMessage { kind: Some(kind) };
    message.encode(buffer).map_err(|error| internal_datafusion_err!("a search was not encoded: {error}"))
}

/// The message of a buffer, or none if another codec wrote it.
fn decode(buffer: &[u8]) -> Option<Result<Kind>> {
    let (&version, message) = buffer.strip_prefix(MAGIC)?.split_first()?;
    if version != VERSION {
        return Some(internal_err!(
            "a search of version {version} of nearfield-datafusion's messages cannot be read here"
        ));
    }
    Some(match NodeMessage::decode(message) {
        Ok(NodeMessage { kind: Some(kind) }) => Ok(kind),
        Ok(_) => internal_err!("a search of a later version of nearfield-datafusion cannot be read"),
        Err(error) => internal_err!("a search was not decoded: {error}"),
    })
}

fn number(value: u64) -> Result<usize> {
    value.try_into().map_err(|_| internal_datafusion_err!("{value} is too large for this machine"))
}

impl QueriesMessage {
    fn new(queries: &Queries) -> Self {
        let (values, numbers) = (queries.values().to_vec(), queries.numbers().to_vec());
        Self { dim: queries.dim() as u64, values, numbers }
    }

    fn queries(self) -> Result<Arc<Queries>> {
        Ok(Arc::new(Queries::from_parts(number(self.dim)?, self.values, self.numbers)?))
    }
}

impl KnnMessage {
    fn new(wanted: &Wanted, given: Option<&Queries>, query_column: Option<&String>) -> Self {
        Self {
            column: wanted.column.clone(),
            k: wanted.k as u64,
            metric: wanted.metric.to_string(),
            kept: wanted.kept.clone(),
            kept_of_queries: wanted.kept_of_queries.clone(),
            given: given.map(QueriesMessage::new),
            query_column: query_column.cloned().unwrap_or_default(),
            files: vec![],
            has_places: false,
        }
    }

    fn wanted(&self) -> Result<Wanted> {
        Ok(Wanted {
            column: self.column.clone(),
            k: number(self.k)?,
            metric: Metric::of_name(&self.metric)?,
            kept: self.kept.clone(),
            kept_of_queries: self.kept_of_queries.clone(),
        })
    }
}

/// The source of an operator: that of the message, or its input.
fn source(
    given: Option<QueriesMessage>,
    inputs: &[Arc<dyn ExecutionPlan>],
    column: String,
    has_places: bool,
) -> Result<Source> {
    match (given, inputs) {
        (Some(given), []) => Ok(Source::Given(given.queries()?)),
        (None, [plan]) => {
            let order = match has_places {
                true => QueryOrder::Places,
                // What arrives here may arrive in another order at other tasks.
                false => QueryOrder::Values,
            };
            Ok(Source::Table { plan: plan.clone(), column, order })
        }
        _ => internal_err!("a search has {} inputs", inputs.len() + 1),
    }
}

/// The queries of a source that a message has, the column of the others, and whether those have places.
fn parts(source: &Source) -> (Option<&Queries>, Option<&String>, bool) {
    match source {
        Source::Given(queries) => (Some(queries), None, false),
        Source::Table { column, order, .. } => (None, Some(column), *order == QueryOrder::Places),
    }
}

impl IndexMessage {
    fn new(index: &KnnIndexExec) -> Self {
        let (given, column, has_places) = parts(index.source());
        let IndexSearch { k, probes, kept, kept_of_queries, is_rooted, dim } = index.wanted().clone();
        Self {
            given: given.map(QueriesMessage::new),
            k: k as u64,
            probes: probes_number(probes),
            files: vec![],
            kept,
            kept_of_queries,
            is_rooted,
            dim: dim as u64,
            query_column: column.cloned().unwrap_or_default(),
            has_places,
        }
    }

    fn of_table(table: &KnnIndexTable) -> Self {
        Self {
            given: Some(QueriesMessage::new(&table.queries)),
            k: table.k as u64,
            probes: probes_number(table.probes),
            files: table.files.clone(),
            ..Self::default()
        }
    }

    fn wanted_probes(&self) -> Result<Probes> {
        Ok(match self.probes {
            None => Probes::Default,
            Some(0) => Probes::All,
            Some(lists) => Probes::Lists(number(lists)?),
        })
    }

    fn operator(self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<KnnIndexExec> {
        let [paths, others @ ..] = inputs else { return internal_err!("a search has no input") };
        let (k, probes, dim) = (number(self.k)?, self.wanted_probes()?, number(self.dim)?);
        let Self { kept, kept_of_queries, is_rooted, .. } = self;
        let source = source(self.given, others, self.query_column, self.has_places)?;
        KnnIndexExec::new(
            paths.clone(),
            source,
            IndexSearch { k, probes, kept, kept_of_queries, is_rooted, dim },
        )
    }

    fn table(self) -> Result<KnnIndexTable> {
        let (k, probes) = (number(self.k)?, self.wanted_probes()?);
        let queries = self.given.unwrap_or_default().queries()?;
        Ok(KnnIndexTable { files: self.files, queries, k, probes, schema: knn_index::schema() })
    }
}

fn probes_number(probes: Probes) -> Option<u64> {
    match probes {
        Probes::Default => None,
        Probes::All => Some(0),
        Probes::Lists(lists) => Some(lists as u64),
    }
}

impl ScanMessage {
    fn new(indexed: &Indexed) -> Self {
        Self {
            metric: indexed.metric.to_string(),
            dim: indexed.dim as u64,
            rows: indexed.rows as u64,
            ..Self::default()
        }
    }

    fn indexed(&self) -> Result<Indexed> {
        Ok(Indexed {
            metric: Metric::of_name(&self.metric)?,
            dim: number(self.dim)?,
            rows: number(self.rows)?,
        })
    }

    fn operator(self, input: Arc<dyn ExecutionPlan>) -> Result<IndexScanExec> {
        let near = |near: NearMessage| -> Result<Near> {
            Ok(Near {
                query: near.query.unwrap_or_default().queries()?,
                metric: Metric::of_name(&near.metric)?,
                k: number(near.k)?,
                is_distinct: near.is_distinct,
            })
        };
        let projection = self.projection.iter().map(|&place| number(place)).collect::<Result<Vec<_>>>()?;
        IndexScanExec::new(input, self.indexed()?, projection, self.near.map(near).transpose()?)
    }
}

impl From<&Near> for NearMessage {
    fn from(near: &Near) -> Self {
        Self {
            query: Some(QueriesMessage::new(&near.query)),
            metric: near.metric.to_string(),
            k: near.k as u64,
            is_distinct: near.is_distinct,
        }
    }
}

/// Encodes the physical operators of this crate, and everything else by another codec: that of the cluster.
#[derive(Debug)]
pub struct KnnPhysicalCodec(pub Arc<dyn PhysicalExtensionCodec>);

impl PhysicalExtensionCodec for KnnPhysicalCodec {
    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(kind) = decode(buffer) else { return self.0.try_decode(buffer, inputs, context, converter) };
        Ok(match (kind?, inputs) {
            (Kind::Knn(message), [rows, others @ ..]) => {
                let wanted = message.wanted()?;
                let source = source(message.given, others, message.query_column, message.has_places)?;
                Arc::new(KnnPartialExec::new(rows.clone(), source, wanted, message.files.into())?)
            }
            (Kind::Places(message), [input]) => {
                Arc::new(KnnPlacesExec::new(input.clone(), message.files.into())?)
            }
            (Kind::Nearest(message), [input]) => {
                let context = PhysicalPlanDecodeContext::new(context, self);
                Arc::new(message.operator(input.clone(), &context, converter)?)
            }
            (Kind::FinalK(k), [input]) => Arc::new(KnnFinalExec::new(input.clone(), number(k)?)?),
            (Kind::Index(message), inputs) => Arc::new(message.operator(inputs)?),
            (Kind::Scan(message), [input]) => Arc::new(message.operator(input.clone())?),
            _ => return internal_err!("a search has {} inputs", inputs.len()),
        })
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(partial) = node.downcast_ref::<KnnPartialExec>() {
            let (given, column, has_places) = parts(partial.source());
            let message = KnnMessage::new(partial.wanted(), given, column);
            let files = partial.files().to_vec();
            return encode(Kind::Knn(KnnMessage { files, has_places, ..message }), buffer);
        }
        if let Some(places) = node.downcast_ref::<KnnPlacesExec>() {
            return encode(Kind::Places(PlacesMessage { files: places.files().to_vec() }), buffer);
        }
        if let Some(nearest) = node.downcast_ref::<KnnNearestExec>() {
            return encode(Kind::Nearest(NearestMessage::new(nearest, self, converter)?), buffer);
        }
        if let Some(last) = node.downcast_ref::<KnnFinalExec>() {
            return encode(Kind::FinalK(last.k() as u64), buffer);
        }
        if let Some(index) = node.downcast_ref::<KnnIndexExec>() {
            return encode(Kind::Index(IndexMessage::new(index)), buffer);
        }
        if let Some(scan) = node.downcast_ref::<IndexScanExec>() {
            let projection = scan.projection().iter().map(|&place| place as u64).collect();
            let near = scan.near().map(NearMessage::from);
            return encode(
                Kind::Scan(ScanMessage { projection, near, ..ScanMessage::new(scan.indexed()) }),
                buffer,
            );
        }
        self.0.try_encode(node, buffer, converter)
    }

    fn try_decode_udf(&self, name: &str, buffer: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.0.try_decode_udf(name, buffer)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udf(node, buffer)
    }

    fn try_decode_higher_order_function(&self, name: &str, buffer: &[u8]) -> Result<Arc<HigherOrderUDF>> {
        self.0.try_decode_higher_order_function(name, buffer)
    }

    fn try_encode_higher_order_function(&self, node: &HigherOrderUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_higher_order_function(node, buffer)
    }

    fn try_decode_udaf(&self, name: &str, buffer: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.0.try_decode_udaf(name, buffer)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udaf(node, buffer)
    }

    fn try_decode_udwf(&self, name: &str, buffer: &[u8]) -> Result<Arc<WindowUDF>> {
        self.0.try_decode_udwf(name, buffer)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udwf(node, buffer)
    }
}

/// Encodes the logical operator and the tables of this crate, and everything else by another codec: that of the cluster.
#[derive(Debug)]
pub struct KnnLogicalCodec(pub Arc<dyn LogicalExtensionCodec>);

impl LogicalExtensionCodec for KnnLogicalCodec {
    fn try_decode(&self, buffer: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        let Some(kind) = decode(buffer) else { return self.0.try_decode(buffer, inputs, context) };
        let Kind::Knn(message) = kind? else { return internal_err!("a search of rows has another message") };
        let wanted = message.wanted()?;
        let (rows, asked) = match (inputs, message.given) {
            ([rows], Some(given)) => (rows, Asked::Given(given.queries()?)),
            ([rows, plan], None) => {
                (rows, Asked::Table { plan: Arc::new(plan.clone()), column: message.query_column })
            }
            _ => return internal_err!("a search has {} inputs", inputs.len()),
        };
        Ok(Extension { node: Arc::new(Knn::new(Arc::new(rows.clone()), asked, wanted)?) })
    }

    fn try_encode(&self, node: &Extension, buffer: &mut Vec<u8>) -> Result<()> {
        let Some(knn) = node.node.as_any().downcast_ref::<Knn>() else {
            return self.0.try_encode(node, buffer);
        };
        let (given, column) = match &knn.asked {
            Asked::Given(queries) => (Some(&**queries), None),
            Asked::Table { column, .. } => (None, Some(column)),
        };
        encode(Kind::Knn(KnnMessage::new(&knn.wanted, given, column)), buffer)
    }

    fn try_decode_table_provider(
        &self,
        buffer: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(kind) = decode(buffer) else {
            return self.0.try_decode_table_provider(buffer, table, schema, context);
        };
        match kind? {
            Kind::Index(message) => Ok(Arc::new(message.table()?)),
            Kind::Scan(message) => {
                let indexed = message.indexed()?;
                Ok(Arc::new(IndexTable::from_parts(message.files, indexed)))
            }
            _ => internal_err!("a table of indexes has another message"),
        }
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let any: &dyn Any = node.as_ref();
        if let Some(search) = any.downcast_ref::<KnnIndexTable>() {
            return encode(Kind::Index(IndexMessage::of_table(search)), buffer);
        }
        if let Some(table) = any.downcast_ref::<IndexTable>() {
            let (files, indexed) = table.parts();
            let message = ScanMessage { files: files.to_vec(), ..ScanMessage::new(indexed) };
            return encode(Kind::Scan(message), buffer);
        }
        self.0.try_encode_table_provider(table, node, buffer)
    }

    fn try_decode_file_format(
        &self,
        buffer: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(buffer, context)
    }

    fn try_encode_file_format(&self, buffer: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.0.try_encode_file_format(buffer, node)
    }

    fn try_decode_udf(&self, name: &str, buffer: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.0.try_decode_udf(name, buffer)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udf(node, buffer)
    }

    fn try_decode_higher_order_function(&self, name: &str, buffer: &[u8]) -> Result<Arc<HigherOrderUDF>> {
        self.0.try_decode_higher_order_function(name, buffer)
    }

    fn try_encode_higher_order_function(&self, node: &HigherOrderUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_higher_order_function(node, buffer)
    }

    fn try_decode_udaf(&self, name: &str, buffer: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.0.try_decode_udaf(name, buffer)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udaf(node, buffer)
    }

    fn try_decode_udwf(&self, name: &str, buffer: &[u8]) -> Result<Arc<WindowUDF>> {
        self.0.try_decode_udwf(name, buffer)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udwf(node, buffer)
    }
}
