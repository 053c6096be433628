#![doc = include_str!("../../../docs/files.md")]
//!
//! # In this module
//!
//! [`Writer`] and [`Reader`] know tensors and strings, and nothing of an index. Saving streams the rows from the device in
//! pieces of some MiB, which go to the disk as they come; loading streams them back. Neither holds all rows in host memory.

mod header;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use safetensors::Dtype;
pub(crate) use writer::Writer;

use crate::matrix::ElementKind;

/// The type that the elements of rows have in a file.
pub(crate) fn dtype(kind: ElementKind) -> Dtype {
    match kind {
        ElementKind::F32 => Dtype::F32,
        ElementKind::F16 => Dtype::F16,
    }
}
