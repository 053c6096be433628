//! Changes of rows that are ready: all their memory is taken, and no search sees them yet.

use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use crate::bits::Bits;
use crate::engine::rows::edit::Edit;
use crate::engine::rows::moves::GpuChange;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::{
    parts::layout::Layout,
    rows::hybrid::{changes::HybridChange, outgrown::Outgrown},
};
use crate::error::{Error, Result};
use crate::host::HostChange;

/// The outcome of preparing a change.
#[cfg_attr(
    not(target_arch = "wasm32"),
    expect(clippy::large_enum_variant, reason = "there is one a change, and it moves a few times")
)]
pub(crate) enum Prepared<'a> {
    Ready(RowChange<'a>),
    /// The device has too little memory, and the rows may go to the host.
    Outgrown(Error),
}

impl<'a> Prepared<'a> {
    /// The change; too little memory is an error.
    pub(crate) fn ready(self) -> Result<RowChange<'a>> {
        match self {
            Self::Ready(change) => Ok(change),
            Self::Outgrown(error) => Err(error),
        }
    }
}

/// A change that is ready. The rows that prepared it take it over, or drop what they wrote for it.
pub(crate) enum RowChange<'a> {
    Gpu(GpuChange),
    Host(HostChange),
    #[cfg(not(target_arch = "wasm32"))]
    Hybrid(HybridChange<'a>),
    /// Of rows with a copy on the host.
    Mirrored(Box<MirroredChange<'a>>),
    /// The rows leave their device.
    #[cfg(not(target_arch = "wasm32"))]
    Outgrown(Box<Outgrown<'a>>),
    #[cfg(not(target_arch = "wasm32"))]
    Parts(PartsChange<'a>),
}

/// A change of rows and of their copy on the host.
pub(crate) struct MirroredChange<'a> {
    pub(crate) there: RowChange<'a>,
    /// The change of the copy, which it takes over when the rows have.
    pub(crate) mirrored: Option<(HostChange, Arc<Edit<'a>>)>,
}

/// A change on several devices.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) struct PartsChange<'a> {
    /// The devices that take part, and the change of each.
    pub(crate) changes: Vec<(usize, RowChange<'a>)>,
    /// Where slots lie after the change.
    pub(crate) layout: Option<Layout>,
    /// The end, and the slots that have a row, after the change.
    pub(crate) after: (usize, Option<Bits>),
    /// Whether rows go to the host.
    pub(crate) leaves: bool,
}

impl RowChange<'_> {
    /// The error for a change that other rows prepared.
    pub(crate) fn misplaced(&self) -> Error {
        Error::internal("a change of rows on another engine")
    }
}
