//! Searches of rows that lie in Arrow arrays: exactly what `ORDER BY` of the scalar function finds.
//!
//! The library names some rows more than asked for, by its distances in f32. Those get the scalar function's distance in f64. A bound
//! (`certificate`) then tells whether a row that was not named can be nearer than the k-th: such queries are compared with every row.

pub(crate) mod block;
mod certificate;
pub(crate) mod documents;
pub(crate) mod graph;
pub(crate) mod hits;
pub(crate) mod near;
pub(crate) mod pairwise;
pub(crate) mod queries;
