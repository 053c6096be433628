//! The codec of logical plans.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion_proto::logical_plan::LogicalExtensionCodec;

use crate::codec::message::{Message, Origin, decode, encode};
use crate::plan::node::{Asked, Knn};
use crate::plan::pairwise::Pairwise;
use crate::tables::index_table::IndexTable;
use crate::tables::knn_index::KnnIndexTable;

/// Encodes the logical operator and the tables of this crate, and everything else by another codec: that of the cluster.
#[derive(Debug)]
pub struct KnnLogicalCodec(pub Arc<dyn LogicalExtensionCodec>);

impl LogicalExtensionCodec for KnnLogicalCodec {
    fn try_decode(&self, buffer: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        let Some(message) = decode(buffer) else { return self.0.try_decode(buffer, inputs, context) };
        let (rows, wanted, asked) = match (message?, inputs) {
            (Message::Pairwise { compared, .. }, [rows]) => {
                return Ok(Extension { node: Arc::new(Pairwise::new(Arc::new(rows.clone()), compared)?) });
            }
            (Message::Rows { wanted, origin: Origin::Given(queries), .. }, [rows]) => {
                (rows, wanted, Asked::Given(queries))
            }
            (Message::Rows { wanted, origin: Origin::Input { column, .. }, .. }, [rows, plan]) => {
                (rows, wanted, Asked::Table { plan: Arc::new(plan.clone()), column })
            }
            _ => return internal_err!("a search of rows has another message, or {} inputs", inputs.len()),
        };
        Ok(Extension { node: Arc::new(Knn::new(Arc::new(rows.clone()), asked, wanted)?) })
    }

    fn try_encode(&self, node: &Extension, buffer: &mut Vec<u8>) -> Result<()> {
        if let Some(pairwise) = node.node.as_any().downcast_ref::<Pairwise>() {
            let compared = pairwise.compared.clone();
            return encode(&Message::Pairwise { compared, has_places: false }, buffer);
        }
        let Some(knn) = node.node.as_any().downcast_ref::<Knn>() else {
            return self.0.try_encode(node, buffer);
        };
        let origin = match &knn.asked {
            Asked::Given(queries) => Origin::Given(queries.clone()),
            Asked::Table { column, .. } => Origin::Input { column: column.clone(), has_places: false },
        };
        encode(&Message::Rows { wanted: knn.wanted.clone(), origin, files: vec![] }, buffer)
    }

    fn try_decode_table_provider(
        &self,
        buffer: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(message) = decode(buffer) else {
            return self.0.try_decode_table_provider(buffer, table, schema, context);
        };
        match message? {
            Message::IndexTable { files, indexed } => Ok(Arc::new(IndexTable { files, indexed })),
            Message::KnnIndexTable(search) => Ok(Arc::new(search)),
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
            return encode(&Message::KnnIndexTable(search.clone()), buffer);
        }
        if let Some(IndexTable { files, indexed }) = any.downcast_ref() {
            return encode(&Message::IndexTable { files: files.clone(), indexed: indexed.clone() }, buffer);
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

    functions_by_another! {}
}
