//! Vectors that a call takes, wherever they are: queries, new rows, rows to train on.

use crate::elements::{Element, ElementKind, HostVectors, Matrix, MatrixView};
use crate::engine::device::engine::Engine;
use crate::engine::device::matrices::DeviceMatrix;
use crate::error::Result;
use crate::host;

/// Vectors, `[rows, dim]`: a view of the host's memory, of any element type, or a matrix on the index's device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Vectors<'a> {
    /// In the host's memory.
    Host(HostVectors<'a>),
    /// On the device.
    Device(&'a DeviceMatrix),
}

impl<'a, T: Element> From<MatrixView<'a, T>> for Vectors<'a> {
    fn from(vectors: MatrixView<'a, T>) -> Self {
        Self::Host(vectors.into())
    }
}

/// One vector.
impl<'a, T: Element> From<&'a [T]> for Vectors<'a> {
    fn from(row: &'a [T]) -> Self {
        MatrixView::of_whole_rows(row, row.len().max(1)).into()
    }
}

/// One vector.
impl<'a, T: Element, const DIM: usize> From<&'a [T; DIM]> for Vectors<'a> {
    fn from(row: &'a [T; DIM]) -> Self {
        row.as_slice().into()
    }
}

/// One vector.
impl<'a, T: Element> From<&'a Vec<T>> for Vectors<'a> {
    fn from(row: &'a Vec<T>) -> Self {
        row.as_slice().into()
    }
}

/// Vectors, one an array.
impl<'a, T: Element, const DIM: usize> From<&'a [[T; DIM]]> for Vectors<'a> {
    fn from(rows: &'a [[T; DIM]]) -> Self {
        const { assert!(DIM > 0, "vectors have at least one element") };
        MatrixView::of_whole_rows(rows.as_flattened(), DIM).into()
    }
}

/// Vectors, one an array.
impl<'a, T: Element, const DIM: usize> From<&'a Vec<[T; DIM]>> for Vectors<'a> {
    fn from(rows: &'a Vec<[T; DIM]>) -> Self {
        rows.as_slice().into()
    }
}

/// Vectors, one an array.
impl<'a, T: Element, const DIM: usize, const ROWS: usize> From<&'a [[T; DIM]; ROWS]> for Vectors<'a> {
    fn from(rows: &'a [[T; DIM]; ROWS]) -> Self {
        rows.as_slice().into()
    }
}

impl<'a> From<&'a Matrix> for Vectors<'a> {
    /// # Panics
    /// When the dim is 0 or does not divide the number of elements.
    fn from(rows: &'a Matrix) -> Self {
        Self::Host(rows.into())
    }
}

impl<'a> From<HostVectors<'a>> for Vectors<'a> {
    fn from(vectors: HostVectors<'a>) -> Self {
        Self::Host(vectors)
    }
}

impl<'a> From<&'a DeviceMatrix> for Vectors<'a> {
    fn from(vectors: &'a DeviceMatrix) -> Self {
        Self::Device(vectors)
    }
}

impl<'a> Vectors<'a> {
    /// How many there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::Host(vectors) => vectors.rows(),
            Self::Device(matrix) => matrix.rows(),
        }
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        match self {
            Self::Host(vectors) => vectors.dim(),
            Self::Device(matrix) => matrix.dim(),
        }
    }

    /// The element type: of a matrix on a device f32, whatever it was uploaded as.
    pub fn kind(&self) -> ElementKind {
        match self {
            Self::Host(vectors) => vectors.kind(),
            Self::Device(matrix) => matrix.kind(),
        }
    }

    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        match self {
            Self::Host(_) => Ok(()),
            Self::Device(matrix) => matrix.check_device(argument, engine),
        }
    }

    /// Validates the elements on the host when no kernel will run. Those on a device were validated on their way there.
    pub(crate) fn check_values(&self, argument: &'static str) -> Result<()> {
        match self {
            Self::Host(vectors) => host::checked(argument, *vectors).map(drop),
            Self::Device(_) => Ok(()),
        }
    }

    /// The vectors in the host's memory, for the host engine.
    pub(crate) fn on_host(self) -> Result<HostVectors<'a>> {
        match self {
            Self::Host(vectors) => Ok(vectors),
            Self::Device(matrix) => Ok(matrix.on_host()?.into()),
        }
    }

    /// The vectors in the host's memory: fetched, where they are on a device.
    pub(crate) async fn fetched(&self) -> Result<OnHost<'a>> {
        match self {
            Self::Host(vectors) => Ok(OnHost::Borrowed(*vectors)),
            Self::Device(matrix) => matrix.fetched().await.map(OnHost::Owned),
        }
    }
}

/// Vectors in the host's memory: the caller's, or copies.
pub(crate) enum OnHost<'a> {
    Borrowed(HostVectors<'a>),
    Owned(Matrix),
}

impl OnHost<'_> {
    pub(crate) fn vectors(&self) -> HostVectors<'_> {
        match self {
            Self::Borrowed(vectors) => *vectors,
            Self::Owned(matrix) => matrix.into(),
        }
    }
}
