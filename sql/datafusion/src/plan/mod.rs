//! Searches in plans: the logical operator, its plan in physical ones, and the rules that change plans.

pub(crate) mod keep_order;
pub(crate) mod narrow;
pub(crate) mod nearest_first;
pub(crate) mod node;
pub(crate) mod pairwise;
pub(crate) mod planner;
pub(crate) mod sort_by_score;
