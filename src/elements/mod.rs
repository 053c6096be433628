//! Vectors in the host's memory: element types, borrowed and owned values, views and matrices.

mod kind;
mod matrix;
mod shared;
mod slice;
mod vectors;
mod widen;

pub(crate) use kind::with_type;
pub use kind::{Element, ElementKind, PackedBits};
pub use matrix::{Matrix, MatrixView};
pub(crate) use shared::SharedElements;
pub use slice::Elements;
pub(crate) use slice::with_elements;
pub use vectors::HostVectors;
pub(crate) use vectors::{bits_of, with_view};
