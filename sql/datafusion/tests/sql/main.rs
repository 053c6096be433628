//! SQL gives what brute force in plain SQL gives, on Parquet files made from the shipped embeddings.

mod bits;
mod codec;
mod errors;
mod functions;
mod index_table;
mod knn;
mod knn_index;
mod knn_join;
mod maxsim;
mod pairwise;
mod plans;
mod support;
