//! The host engine: the library's operations on the processor, for machines without a GPU and for work too small for one.
//!
//! Distances that searches report are summed in f64 and rounded to f32 once, so they do not depend on the order of summation. Searches
//! exclude rows by the same certificates as on a GPU.
//!
//! Layers, each of which uses only those before it: `arithmetic`, `integers`, `rows`, `search`, `graph`, `documents` and `lists`. `reduce` needs `arithmetic` alone.

pub(crate) mod arithmetic;
pub(crate) mod documents;
mod graph;
pub(crate) mod integers;
pub(crate) mod lists;
pub(crate) mod processor;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod search;

pub(crate) use lists::centroids::HostCentroids;
pub(crate) use lists::probing::HostLists;
pub(crate) use lists::training::HostTraining;
pub(crate) use processor::{Host, memory_usage};
pub(crate) use reduce::deviations::{squared_deviations, squared_deviations_rows};
pub(crate) use reduce::records::{Reduced, reduce, reduce_rows};
pub(crate) use reduce::top_k::top_k;
pub(crate) use rows::mapped::MappedRows;
pub(crate) use rows::norms::checked;
pub(crate) use rows::quantizer::Quantizer;
pub(crate) use rows::store::{HostChange, HostRows};
pub(crate) use search::distances::{NormedVectors, distances, make_room};
pub(crate) use search::refining::{Candidates, Shortlist};
pub(crate) use search::request::{Hits, HostRequest, SearchLimit};
pub(crate) use search::schedule::fills_threads;
