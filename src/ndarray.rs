//! Arrays of the crate `ndarray` as vectors.

use ndarray::ArrayView2;

use crate::elements::{Element, Matrix, MatrixView};
use crate::error::{Error, Result};
use crate::memory;

/// An array `[rows, dim]` in C order without gaps, as it lies in memory. [`Matrix::try_from`] copies arrays in any other layout.
///
/// ```
/// use nearfield::{Device, Flat, MatrixView, Metric};
/// let rows = ndarray::array![[0.0f32, 1.0], [2.0, 3.0]];
/// let mut index = Flat::builder(&Device::host(), Metric::L2, 2).build()?;
/// index.add(MatrixView::try_from(rows.view())?)?;
/// # Ok::<(), nearfield::Error>(())
/// ```
impl<'a, T: Element> TryFrom<ArrayView2<'a, T>> for MatrixView<'a, T> {
    type Error = Error;

    fn try_from(array: ArrayView2<'a, T>) -> Result<Self> {
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        let values = array.to_slice().ok_or_else(|| {
            let needed = "an array in C order without gaps; Matrix::try_from copies others";
            Error::argument("array", needed, format!("shape {shape:?} with strides {strides:?}"))
        })?;
        Self::new(values, shape[1])
    }
}

/// A copy of an array `[rows, dim]` in any layout.
///
/// ```
/// use nearfield::Matrix;
/// let columns = ndarray::array![[0.0f32, 1.0, 2.0], [3.0, 4.0, 5.0]];
/// let matrix = Matrix::try_from(columns.t())?;
/// assert_eq!(matrix, Matrix::F32(vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0], 2));
/// # Ok::<(), nearfield::Error>(())
/// ```
impl<T: Element> TryFrom<ArrayView2<'_, T>> for Matrix {
    type Error = Error;

    fn try_from(array: ArrayView2<'_, T>) -> Result<Self> {
        let dim = array.ncols();
        if dim == 0 {
            return Err(Error::argument("array", "at least one column", "none"));
        }
        let mut values: Vec<T> = memory::with_room(array.len())?;
        values.extend(array.iter());
        Ok(Self::of(values, dim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, s};

    #[test]
    fn arrays_are_rows_as_they_lie_and_copies_in_any_layout() {
        let array = Array2::from_shape_fn((4, 3), |(row, column)| (10 * row + column) as f32);
        let view = MatrixView::try_from(array.view()).expect("in C order");
        assert_eq!((view.rows(), view.row(2)), (4, &[20.0, 21.0, 22.0][..]));
        let part = array.slice(s![1..3, ..2]);
        assert!(MatrixView::try_from(part).is_err_and(|error| error.to_string().contains("strides [3, 1]")));
        assert_eq!(Matrix::try_from(part).expect("a copy"), Matrix::F32(vec![10.0, 11.0, 20.0, 21.0], 2));
        assert!(Matrix::try_from(Array2::<f32>::zeros((3, 0)).view()).is_err());
    }
}
