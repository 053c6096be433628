//! The messages of searches of rows.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;

use crate::codec::parts::{QueriesMessage, number};
use crate::exec::nearest::{KnnNearestExec, Narrowing};
use crate::metric::named;
use crate::plan::node::Wanted;
use crate::search::queries::Queries;

/// A search of rows: the operator beside them, or the logical one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KnnMessage {
    #[prost(string, tag = "1")]
    pub(super) column: String,
    #[prost(uint64, tag = "2")]
    pub(super) k: u64,
    #[prost(string, tag = "3")]
    pub(super) metric: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) kept: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) kept_of_queries: Vec<String>,
    /// Queries of the statement; without them, those of a table.
    #[prost(message, optional, tag = "6")]
    pub(super) given: Option<QueriesMessage>,
    #[prost(string, tag = "7")]
    pub(super) query_column: String,
    /// Of the operator alone: the files of the table in their order.
    #[prost(string, repeated, tag = "8")]
    pub(super) files: Vec<String>,
    /// Of the operator alone: whether the queries of a table have places.
    #[prost(bool, tag = "9")]
    pub(super) has_places: bool,
}

/// What the operator below a sort narrows by, or why it does not.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NearestMessage {
    /// The message of DataFusion for the key.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(super) descending: bool,
    #[prost(bool, tag = "3")]
    pub(super) nulls_first: bool,
    #[prost(uint64, tag = "4")]
    pub(super) k: u64,
    #[prost(bool, tag = "5")]
    pub(super) is_distinct: bool,
    #[prost(string, optional, tag = "6")]
    pub(super) not_used: Option<String>,
}

impl NearestMessage {
    pub(super) fn new(
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

    pub(super) fn operator(
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
pub(super) struct PlacesMessage {
    #[prost(string, repeated, tag = "1")]
    pub(super) files: Vec<String>,
}

impl KnnMessage {
    pub(super) fn new(wanted: &Wanted, given: Option<&Queries>, query_column: Option<&String>) -> Self {
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

    pub(super) fn wanted(&self) -> Result<Wanted> {
        Ok(Wanted {
            column: self.column.clone(),
            k: number(self.k)?,
            metric: named(&self.metric)?,
            kept: self.kept.clone(),
            kept_of_queries: self.kept_of_queries.clone(),
        })
    }
}
