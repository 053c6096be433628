//! The codec of physical plans.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};

use crate::codec::envelope::{Kind, decode, encode};
use crate::codec::indexes::{IndexMessage, NearMessage, ScanMessage};
use crate::codec::parts::{functions_by_another, number, parts, source};
use crate::codec::rows::{KnnMessage, NearestMessage, PlacesMessage};
use crate::exec::index::KnnIndexExec;
use crate::exec::index_scan::IndexScanExec;
use crate::exec::last::KnnFinalExec;
use crate::exec::nearest::KnnNearestExec;
use crate::exec::partial::KnnPartialExec;
use crate::exec::places::KnnPlacesExec;

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
