//! Every row against every row: the graph of nearest neighbours, pairs within a radius, duplicates, clusters by density.

mod boruvka;
pub(crate) mod csr;
pub(crate) mod density;
pub(crate) mod duplicates;
mod forest;
pub(crate) mod graph;
pub(crate) mod methods;
pub(crate) mod pairs;
pub(crate) mod tree;
