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

use crate::codec::envelope::{Kind, decode, encode};
use crate::codec::indexes::{IndexMessage, ScanMessage};
use crate::codec::parts::functions_by_another;
use crate::codec::rows::KnnMessage;
use crate::plan::node::{Asked, Knn};
use crate::tables::index_table::IndexTable;
use crate::tables::knn_index::KnnIndexTable;

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

    functions_by_another! {}
}
