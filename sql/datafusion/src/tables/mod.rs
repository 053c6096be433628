//! The table functions.

mod arguments;
mod index_files;
pub(crate) mod index_table;
pub(crate) mod knn;
pub(crate) mod knn_index;
