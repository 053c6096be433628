#![doc = include_str!("../../../docs/files.md")]
//!
//! # In this module
//!
//! [`Writer`] and [`Reader`] know tensors and strings, and nothing of an index. An index that is saved streams its rows from
//! the device in pieces of some MiB, which go to the disk as they come; one that is loaded does the same the other way
//! round. Neither has all rows in host memory.

mod header;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::{Pieces, Reader};
pub(crate) use safetensors::Dtype;
pub(crate) use writer::Writer;

use crate::matrix::ElementKind;

/// What the elements of rows are in a file.
pub(crate) fn dtype(kind: ElementKind) -> Dtype {
    match kind {
        ElementKind::F32 => Dtype::F32,
        ElementKind::F16 => Dtype::F16,
    }
}
