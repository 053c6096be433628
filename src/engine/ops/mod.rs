//! Operations on whole sets: distances, selections, reductions. `matrices`, `nearest` and `reductions` serve either engine; the other files run on
//! a GPU.

pub(crate) mod deviations;
pub(crate) mod distances;
mod feed;
pub(crate) mod job;
pub(crate) mod matrices;
pub(crate) mod nearest;
pub(crate) mod reductions;
pub(crate) mod row_reductions;
pub(crate) mod top_k;
pub(crate) mod vector_reductions;
