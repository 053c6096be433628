//! Exact search on the host: scores, intervals, and the distances of the rows that intervals cannot exclude.

pub(crate) mod batch;
pub(crate) mod blocks;
pub(crate) mod candidates;
pub(crate) mod cost;
pub(crate) mod distances;
pub(crate) mod intervals;
pub(crate) mod pair;
pub(crate) mod pipeline;
mod products;
pub(crate) mod refining;
pub(crate) mod request;
pub(crate) mod scan;
pub(crate) mod schedule;
pub(crate) mod scorer;
