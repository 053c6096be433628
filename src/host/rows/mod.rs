//! The rows of an index in the host's memory, and their quantised copy.

mod copies;
pub(crate) mod gathered;
pub(crate) mod group;
pub(crate) mod mapped;
pub(crate) mod norms;
pub(crate) mod quantized;
pub(crate) mod quantizer;
mod room;
pub(crate) mod store;
pub(crate) mod values;
pub(crate) mod whole;
