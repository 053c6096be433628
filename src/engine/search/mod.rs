//! Exact search on a GPU.

pub(crate) mod answers;
pub(crate) mod candidates;
pub(crate) mod exhaustive;
pub(crate) mod nominate;
pub(crate) mod pipeline;
pub(crate) mod plan;
pub(crate) mod scores;
pub(crate) mod within;
