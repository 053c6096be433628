//! The metrics: names, definitions, bounds of errors, and what kernels and searches need to know of each. A metric is added here, in
//! `src/screen/certificate.rs`, and in the kernels that have an arm for each.

mod bounds;
mod form;
mod kind;
mod output;

pub use form::Form;
pub use kind::Metric;
pub(crate) use kind::{PAIRS_METRICS, PAIRS_NAMES, PAIRS_OF_PRODUCTS, REFINED_METRICS, REFINED_NAMES};
pub use output::{Output, Precision};
