//! Sends searches to other machines, as parts of DataFusion's plans.
//!
//! A cluster has codecs of its own. Those here encode what this crate has, and hand everything else to the cluster's.

/// Writes the methods of a codec for functions, by which both codecs leave them to the cluster's.
macro_rules! functions_by_another {
    () => { functions_by_another! {
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

mod logical;
mod message;
mod physical;

pub use logical::KnnLogicalCodec;
pub use physical::KnnPhysicalCodec;
