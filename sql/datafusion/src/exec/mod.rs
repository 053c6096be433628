//! The physical operators.

mod found;
pub(crate) mod index;
pub(crate) mod index_scan;
pub(crate) mod indexed;
pub(crate) mod last;
mod metrics;
pub(crate) mod operator;
pub(crate) mod pairwise;
pub(crate) mod partial;
pub(crate) mod pieces;
pub(crate) mod places;
pub(crate) mod source;
pub(crate) mod whole;
mod work;
