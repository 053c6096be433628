//! Sends searches to other machines, as parts of DataFusion's plans.
//!
//! A cluster has codecs of its own. Those here encode what this crate has, and hand everything else to the cluster's.

mod envelope;
mod indexes;
mod logical;
mod parts;
mod physical;
mod rows;

pub use logical::KnnLogicalCodec;
pub use physical::KnnPhysicalCodec;
