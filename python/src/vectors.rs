//! Rows, queries and values of Python objects, as views of their memory where its layout allows that.

use half::f16;
use nearfield::{HostVectors, MatrixView};
use numpy::{Element, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow::ArrowRows;
use crate::{errors, python};

/// Vectors of the caller's: their memory stays borrowed as long as this lives.
pub(crate) enum Vectors<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    Arrow(ArrowRows),
}

/// The array, if it holds such elements as the library reads them: in C order and aligned.
fn direct<'py, T: Element>(given: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
    let array: &Bound<'py, PyArrayDyn<T>> = given.cast().ok()?;
    let is_direct = array.is_c_contiguous() && array.data().is_aligned();
    // Another borrow that writes, such as an `out` of a search in another thread, leaves a copy.
    if is_direct { array.try_readonly().ok() } else { None }
}

/// The elements of a contiguous array.
fn slice<'a, T: Element>(array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))
}

impl<'py> Vectors<'py> {
    /// The rows or queries of an argument. One vector counts as one row where `dim` is known.
    pub(crate) fn of(
        given: &Bound<'py, PyAny>,
        argument: &'static str,
        dim: Option<usize>,
    ) -> PyResult<Self> {
        let py = given.py();
        let shape_fits = |shape: &[usize]| shape.len() == 2 || (shape.len() == 1 && dim == Some(shape[0]));
        if let Some(array) = direct::<f32>(given).filter(|array| shape_fits(array.shape())) {
            return Ok(Self::F32(array));
        }
        if let Some(array) = direct::<f16>(given).filter(|array| shape_fits(array.shape())) {
            return Ok(Self::F16(array));
        }
        if let Some(rows) = ArrowRows::of(given, argument)? {
            return Ok(Self::Arrow(rows));
        }
        let array = python::to_rows(py)?.call1((given, argument, dim))?;
        Self::of_array(&array, argument)
    }

    /// Values to reduce, of any shape.
    pub(crate) fn of_values(given: &Bound<'py, PyAny>, argument: &'static str) -> PyResult<Self> {
        if let Some(array) = direct::<f32>(given) {
            return Ok(Self::F32(array));
        }
        Self::of_array(&python::to_values(given.py())?.call1((given, argument))?, argument)
    }

    /// The array that the package's Python code has made: of f32 or f16, in C order.
    fn of_array(array: &Bound<'py, PyAny>, argument: &'static str) -> PyResult<Self> {
        if let Some(array) = direct::<f32>(array) {
            return Ok(Self::F32(array));
        }
        direct::<f16>(array)
            .map(Self::F16)
            .ok_or_else(|| PyTypeError::new_err(format!("{argument}: needed an array of float32 or float16")))
    }

    /// A view that the library reads.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<HostVectors<'_>> {
        let view = match self {
            Self::F32(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::F32),
            Self::F16(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::F16),
            Self::Arrow(rows) => rows.view(),
        };
        view.map_err(|error| errors::exception(py, error))
    }
}

/// The length of the last axis: the elements of a vector.
fn last<T: Element>(array: &Bound<'_, PyArray<T, numpy::IxDyn>>) -> usize {
    array.shape().last().copied().unwrap_or(1)
}
