//! What several messages have: numbers, queries, and where queries come from.

use std::sync::Arc;

use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use prost::Message;

use crate::exec::source::{QueryOrder, Source};
use crate::search::queries::Queries;

/// Writes the methods of a codec for functions, by which both codecs leave them to the cluster's.
macro_rules! functions_by_another {
    () => { $crate::codec::parts::functions_by_another! {
        try_decode_udf try_encode_udf datafusion::logical_expr::ScalarUDF;
        try_decode_higher_order_function try_encode_higher_order_function datafusion::logical_expr::HigherOrderUDF;
        try_decode_udaf try_encode_udaf datafusion::logical_expr::AggregateUDF;
        try_decode_udwf try_encode_udwf datafusion::logical_expr::WindowUDF;
    } };
    ($($decode:ident $encode:ident $function:ty;)+) => {$(
        fn $decode(&self, name: &str, buffer: &[u8]) -> Result<Arc<$function>> {
            self.0.$decode(name, buffer)
        }

        fn $encode(&self, node: &$function, buffer: &mut Vec<u8>) -> Result<()> {
            self.0.$encode(node, buffer)
        }
    )+};
}
pub(super) use functions_by_another;

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueriesMessage {
    #[prost(uint64, tag = "1")]
    pub(super) dim: u64,
    #[prost(double, repeated, tag = "2")]
    pub(super) values: Vec<f64>,
    #[prost(uint64, repeated, tag = "3")]
    pub(super) numbers: Vec<u64>,
}

pub(super) fn number(value: u64) -> Result<usize> {
    value.try_into().map_err(|_| internal_datafusion_err!("{value} is too large for this machine"))
}

impl QueriesMessage {
    pub(super) fn new(queries: &Queries) -> Self {
        let (values, numbers) = (queries.values().to_vec(), queries.numbers().to_vec());
        Self { dim: queries.dim() as u64, values, numbers }
    }

    pub(super) fn queries(self) -> Result<Arc<Queries>> {
        Ok(Arc::new(Queries::from_parts(number(self.dim)?, self.values, self.numbers)?))
    }
}

/// The source of an operator: that of the message, or its input.
pub(super) fn source(
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
pub(super) fn parts(source: &Source) -> (Option<&Queries>, Option<&String>, bool) {
    match source {
        Source::Given(queries) => (Some(queries), None, false),
        Source::Table { column, order, .. } => (None, Some(column), *order == QueryOrder::Places),
    }
}
