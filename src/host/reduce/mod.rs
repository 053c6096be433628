//! Reductions and selections on the host.

pub(crate) mod columns;
pub(crate) mod folds;
pub(crate) mod records;
pub(crate) mod top_k;
