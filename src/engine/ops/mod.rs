//! Operations on whole sets: distances, selections, reductions.

pub(crate) mod distances;
pub(crate) mod reductions;
pub(crate) mod row_reductions;
pub(crate) mod top_k;
