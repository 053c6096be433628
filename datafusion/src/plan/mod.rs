//! Searches in plans: the logical operator, the physical ones, and how one becomes the others.

pub(crate) mod final_exec;
mod found;
pub(crate) mod in_order;
pub(crate) mod index_exec;
pub(crate) mod index_paths;
mod metrics;
pub(crate) mod narrow;
pub(crate) mod node;
pub(crate) mod partial_exec;
pub(crate) mod pieces;
pub(crate) mod planner;
mod stop;
