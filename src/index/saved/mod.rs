//! Saving and loading, for every index: rows with their ids, piece by piece. [`index::file`](crate::index::file) knows the
//! files.

mod contents;
mod loading;
mod saving;
#[cfg(test)]
mod tests;

pub(crate) use contents::Lists;
pub use contents::SavedIndex;
pub(crate) use loading::Loading;
pub(crate) use saving::Saving;
