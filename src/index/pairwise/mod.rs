//! Every row against every row: the graph of nearest neighbours, pairs within a radius, duplicates.

pub(crate) mod csr;
pub(crate) mod duplicates;
pub(crate) mod graph;
pub(crate) mod methods;
pub(crate) mod pairs;
