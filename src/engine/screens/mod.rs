//! The screens, a file or a folder each, and the list of them.

pub(crate) mod float;
pub(crate) mod int8;
pub(crate) mod list;
pub(crate) mod score;
