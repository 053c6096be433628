//! Rows and lists of an index on one device or on several: what an index calls. Below it, every device has rows and lists of its own.

pub(crate) mod devices;
pub(crate) mod engine_lists;
pub(crate) mod engine_rows;
mod layout;
mod merging;
mod places;
pub(crate) mod recovery;
mod rows;
mod searching;
mod shares;
mod together;
