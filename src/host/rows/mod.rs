//! The rows of an index in the host's memory, and their narrowed copy.

pub(crate) mod gathered;
pub(crate) mod group;
pub(crate) mod mapped;
pub(crate) mod narrowed;
pub(crate) mod narrower;
pub(crate) mod norms;
pub(crate) mod store;
pub(crate) mod values;
