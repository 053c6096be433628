//! Exact search on a GPU. Each file uses only those above it.

pub(crate) mod answers;
pub(crate) mod request;
pub(crate) mod screens;
pub(crate) mod plan;
pub(crate) mod chunks;
pub(crate) mod planning;
pub(crate) mod batches;
pub(crate) mod screening;
pub(crate) mod nominate;
pub(crate) mod exhaustive;
pub(crate) mod pipeline;
pub(crate) mod within;
