//! Searches in plans: the logical operator, the physical ones, and how one becomes the others.

pub(crate) mod final_exec;
mod found;
pub(crate) mod index_exec;
pub(crate) mod index_paths;
pub(crate) mod keep_order;
mod metrics;
pub(crate) mod narrow;
pub(crate) mod nearest_exec;
pub(crate) mod nearest_first;
pub(crate) mod node;
pub(crate) mod partial_exec;
pub(crate) mod pieces;
pub(crate) mod places_exec;
pub(crate) mod planner;
pub(crate) mod source;
mod stop;
