//! Lists of rows around centroids, on the host.

pub(crate) mod centroids;
pub(crate) mod probing;
pub(crate) mod training;
