//! The indexes: [`Flat`](crate::Flat) and [`Ivf`](crate::Ivf), k-means, and their files.

pub(crate) mod file;
pub(crate) mod flat;
pub(crate) mod ivf;
pub(crate) mod kmeans;
pub(crate) mod persist;
