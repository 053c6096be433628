//! The rows of an index in the host's memory, and their narrowed copy.

pub(crate) mod narrowed;
pub(crate) mod norms;
pub(crate) mod store;
pub(crate) mod widen;
