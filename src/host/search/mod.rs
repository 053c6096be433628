//! Exact search on the host: scores, intervals, and the distances of the rows that remain.

pub(crate) mod distances;
pub(crate) mod intervals;
pub(crate) mod nominees;
pub(crate) mod pace;
pub(crate) mod pipeline;
pub(crate) mod scorer;
pub(crate) mod sharing;
