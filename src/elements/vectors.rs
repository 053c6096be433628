//! Vectors in the host's memory, of any element type.

use crate::elements::matrix::with_matrix;
use crate::elements::slice::with_elements;
use crate::elements::{Element, ElementKind, Elements, Matrix, MatrixView};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::memory;

/// Borrowed vectors of any element type, `[rows, dim]` in C order.
#[derive(Debug, Clone, Copy)]
pub struct HostVectors<'a> {
    elements: Elements<'a>,
    dim: usize,
}

/// Runs an expression on the [`MatrixView`] of [`HostVectors`], whatever its element type.
macro_rules! with_view {
    ($vectors:expr, $view:ident => $run:expr) => {{
        let vectors = $vectors;
        $crate::elements::with_elements!(vectors.elements(), values => {
            let $view = $crate::elements::MatrixView::of_whole_rows(values, vectors.dim());
            $run
        })
    }};
}
pub(crate) use with_view;

impl<'a, T: Element> From<MatrixView<'a, T>> for HostVectors<'a> {
    fn from(view: MatrixView<'a, T>) -> Self {
        Self { elements: view.values().into(), dim: view.dim() }
    }
}

impl<'a> From<&'a Matrix> for HostVectors<'a> {
    /// # Panics
    /// When the dim is 0 or does not divide the number of elements.
    fn from(rows: &'a Matrix) -> Self {
        with_matrix!(rows, values, dim => MatrixView::of_whole_rows(values, *dim).into())
    }
}

impl<'a> HostVectors<'a> {
    /// # Panics
    /// If the values are not whole rows.
    pub(crate) fn of_whole_rows(elements: Elements<'a>, dim: usize) -> Self {
        with_elements!(elements, values => MatrixView::of_whole_rows(values, dim).into())
    }

    /// How many vectors there are.
    pub fn rows(&self) -> usize {
        self.elements.len() / self.dim
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The element type.
    pub fn kind(&self) -> ElementKind {
        self.elements.kind()
    }

    /// All elements, row after row.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// The elements of one row.
    ///
    /// # Panics
    /// If `row` is not below [`rows`](Self::rows).
    pub fn row(&self, row: usize) -> Elements<'a> {
        self.elements.slice(row * self.dim..(row + 1) * self.dim)
    }

    /// The vectors `start..end`.
    ///
    /// # Panics
    /// If the range is not within the rows.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { elements: self.elements.slice(range.start * self.dim..range.end * self.dim), dim: self.dim }
    }

    /// The same bytes as vectors of bits: [`ElementKind::Bits`].
    ///
    /// # Errors
    /// [`Error::Argument`] for elements that are neither u8 nor bits.
    ///
    /// ```
    /// use nearfield::{ElementKind, HostVectors, MatrixView};
    ///
    /// let rows = HostVectors::from(MatrixView::new(&[0b1000_0001u8, 255], 2)?).of_bits()?;
    /// assert_eq!((rows.kind(), rows.rows(), rows.dim()), (ElementKind::Bits, 1, 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn of_bits(self) -> Result<Self> {
        match self.elements {
            Elements::U8(bytes) => Ok(Self { elements: Elements::Bits(bytemuck::cast_slice(bytes)), ..self }),
            Elements::Bits(_) => Ok(self),
            other => Err(Error::argument("vectors", "u8, whose bytes are of eight bits each", other.kind())),
        }
    }

    /// Copies of some elements of each vector, `[rows, columns.len()]`: the first 256, say, of embeddings that were trained to be cut short.
    ///
    /// # Errors
    /// [`Error::Argument`] for no columns, and for columns beyond the dim; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use nearfield::{HostVectors, Matrix, MatrixView};
    ///
    /// let rows = MatrixView::new(&[1i8, 2, 3, 4, 5, 6], 3)?;
    /// assert_eq!(HostVectors::from(rows).columns(0..2)?, Matrix::I8(vec![1, 2, 4, 5], 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn columns(&self, columns: std::ops::Range<usize>) -> Result<Matrix> {
        if columns.is_empty() || columns.end > self.dim {
            let needed = format!("some within 0..{}", self.dim);
            return Err(Error::argument("columns", needed, format!("{columns:?}")));
        }
        let mut matrix = Matrix::with_room(self.kind(), self.rows(), columns.len())?;
        with_view!(*self, view => {
            (0..view.rows()).try_for_each(|row| matrix.extend(MatrixView::of_whole_rows(&view.row(row)[columns.clone()], columns.len())))?;
        });
        Ok(matrix)
    }

    /// Copies of some vectors, in the order of their numbers.
    pub(crate) fn chosen(&self, numbers: &[usize]) -> Result<Matrix> {
        fn copied<T: Element>(view: MatrixView<'_, T>, numbers: &[usize]) -> Result<Vec<T>> {
            let mut values = memory::with_room(numbers.len() * view.dim())?;
            for numbers in numbers.chunks((interrupt::WORK / view.dim()).max(1)) {
                interrupt::check()?;
                numbers.iter().for_each(|&number| values.extend_from_slice(view.row(number)));
            }
            Ok(values)
        }
        with_view!(self, view => Ok(Matrix::of(copied(view, numbers)?, view.dim())))
    }

    /// Vectors as the centroids of lists are compared with them: copies of bits as numbers 0 and 1, `[rows, 8 dim]`, the highest of a byte
    /// first; none where they are numbers.
    pub(crate) fn as_numbers(&self) -> Result<Option<Matrix>> {
        let Elements::Bits(bytes) = self.elements else { return Ok(None) };
        let mut numbers: Vec<u8> = memory::with_room(bytes.len() * 8)?;
        numbers.extend(bytes.iter().flat_map(|byte| bits_of(byte.0)));
        Ok(Some(Matrix::of(numbers, self.dim * 8)))
    }

    /// All elements as they lie in memory.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.elements.bytes()
    }

    /// All elements in f32, exactly.
    pub fn to_f32(self) -> Vec<f32> {
        with_elements!(self.elements, values => values.iter().map(|x| x.widen()).collect())
    }
}

/// The bits of a byte, the highest first.
pub(crate) fn bits_of(byte: u8) -> [u8; 8] {
    std::array::from_fn(|place| byte >> (7 - place) & 1)
}

impl Matrix {
    /// Appends vectors of the same dim, each element as the nearest of this matrix's type.
    ///
    /// # Errors
    /// [`Error::Argument`] for another dim; [`Error::OutOfMemory`], and then the matrix is as it was.
    ///
    /// ```
    /// use nearfield::{ElementKind, Matrix, MatrixView};
    ///
    /// let mut matrix = Matrix::with_room(ElementKind::I8, 2, 2)?;
    /// matrix.extend(MatrixView::new(&[1i8, 2], 2)?)?;
    /// matrix.extend(MatrixView::new(&[3.0f32, 4.0], 2)?)?;
    /// assert_eq!(matrix, Matrix::I8(vec![1, 2, 3, 4], 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn extend<'a>(&mut self, rows: impl Into<HostVectors<'a>>) -> Result<()> {
        fn append<T: Element, V: Element>(own: &mut Vec<T>, more: &[V]) -> Result<()> {
            memory::reserve(own, more.len())?;
            own.extend(more.iter().map(|value| T::nearest(value.widen())));
            Ok(())
        }
        let rows = rows.into();
        if rows.dim() != self.dim() {
            return Err(Error::argument(
                "rows",
                format!("dim {}, as the matrix has", self.dim()),
                rows.dim(),
            ));
        }
        with_matrix!(self, own, _dim => with_elements!(rows.elements(), more => append(own, more)))
    }
}
