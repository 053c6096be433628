//! The codec of physical plans.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::codec::message::{Message, Origin, decode, encode};
use crate::exec::index::KnnIndexExec;
use crate::exec::index_scan::IndexScanExec;
use crate::exec::last::KnnFinalExec;
use crate::exec::pairwise::PairwiseExec;
use crate::exec::partial::KnnPartialExec;
use crate::exec::places::KnnPlacesExec;
use crate::exec::source::{QueryOrder, Source};

fn origin(source: &Source) -> Origin {
    match source {
        Source::Given(queries) => Origin::Given(queries.clone()),
        Source::Table { column, order, .. } => {
            Origin::Input { column: column.clone(), has_places: *order == QueryOrder::Places }
        }
    }
}

/// The order in which every task numbers queries: what arrives here may arrive in another order at other tasks.
fn order(has_places: bool) -> QueryOrder {
    if has_places { QueryOrder::Places } else { QueryOrder::Values }
}

fn source(origin: Origin, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Source> {
    match (origin, inputs) {
        (Origin::Given(queries), []) => Ok(Source::Given(queries)),
        (Origin::Input { column, has_places }, [plan]) => {
            Ok(Source::Table { plan: plan.clone(), column, order: order(has_places) })
        }
        _ => internal_err!("a search has {} inputs", inputs.len() + 1),
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
        let Some(message) = decode(buffer) else {
            return self.0.try_decode(buffer, inputs, context, converter);
        };
        Ok(match (message?, inputs) {
            (Message::Rows { wanted, origin, files }, [rows, others @ ..]) => {
                Arc::new(KnnPartialExec::new(rows.clone(), source(origin, others)?, wanted, files.into())?)
            }
            (Message::Places { files }, [input]) => {
                Arc::new(KnnPlacesExec::new(input.clone(), files.into())?)
            }
            (Message::Final { k }, [input]) => Arc::new(KnnFinalExec::new(input.clone(), k)?),
            (Message::Pairwise { compared, has_places }, [rows]) => {
                Arc::new(PairwiseExec::new(rows.clone(), order(has_places), compared)?)
            }
            (Message::Index { wanted, origin }, [paths, others @ ..]) => {
                Arc::new(KnnIndexExec::new(paths.clone(), source(origin, others)?, wanted)?)
            }
            (Message::Scan { indexed, projection, near }, [input]) => {
                Arc::new(IndexScanExec::new(input.clone(), indexed, projection, near)?)
            }
            _ => return internal_err!("an operator has another message, or {} inputs", inputs.len()),
        })
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let message = if let Some(partial) = node.downcast_ref::<KnnPartialExec>() {
            let files = partial.files().to_vec();
            Message::Rows { wanted: partial.wanted().clone(), origin: origin(partial.source()), files }
        } else if let Some(places) = node.downcast_ref::<KnnPlacesExec>() {
            Message::Places { files: places.files().to_vec() }
        } else if let Some(last) = node.downcast_ref::<KnnFinalExec>() {
            Message::Final { k: last.k() }
        } else if let Some(pairwise) = node.downcast_ref::<PairwiseExec>() {
            let has_places = pairwise.order() == QueryOrder::Places;
            Message::Pairwise { compared: pairwise.compared().clone(), has_places }
        } else if let Some(index) = node.downcast_ref::<KnnIndexExec>() {
            Message::Index { wanted: index.wanted().clone(), origin: origin(index.source()) }
        } else if let Some(scan) = node.downcast_ref::<IndexScanExec>() {
            let (indexed, projection) = (scan.indexed().clone(), scan.projection().to_vec());
            Message::Scan { indexed, projection, near: scan.near().cloned() }
        } else {
            return self.0.try_encode(node, buffer, converter);
        };
        encode(&message, buffer)
    }

    functions_by_another! {}

    fn try_decode_expr(
        &self,
        buffer: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        context: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.0.try_decode_expr(buffer, inputs, context)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buffer: &mut Vec<u8>,
        context: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.0.try_encode_expr(node, buffer, context)
    }
}
