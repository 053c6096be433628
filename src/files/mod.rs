//! Reads files at any position, maps them, and writes files whole or not at all.

mod mapped;
mod message;
pub(crate) mod npy;
mod pending;
mod positioned;
mod temporary;

pub(crate) use mapped::MappedFile;
pub(crate) use message::{failed, mismatch};
pub(crate) use pending::{Pending, link_target, same_access, sync_directory};
pub(crate) use positioned::PositionedFile;
#[cfg(feature = "io")]
pub use temporary::remove_unfinished;
