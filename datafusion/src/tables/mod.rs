//! The table functions.

mod arguments;
pub(crate) mod knn;
pub(crate) mod knn_index;
pub(crate) mod knn_join;
