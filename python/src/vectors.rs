//! Rows, queries and values of Python objects, as views of their memory where its layout allows that.

use half::f16;
use nearfield::{ElementKind, HostVectors, MatrixView};
use numpy::{
    Element, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow::ArrowRows;
use crate::given::in_use;
use crate::{errors, python};

/// Vectors of the caller's: their memory stays borrowed as long as this lives.
pub(crate) enum Vectors<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    I8(PyReadonlyArrayDyn<'py, i8>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    Arrow(ArrowRows),
}

/// The array, if it holds such elements as the library reads them: in C order and aligned. Not where another call writes to it.
fn direct<'py, T: Element>(given: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
    let array: &Bound<'py, PyArrayDyn<T>> = given.cast().ok()?;
    let is_direct = array.is_c_contiguous() && array.data().is_aligned();
    if is_direct { array.try_readonly().ok() } else { None }
}

/// Whether it is an array of numpy's own class. Others may mean more than their memory says, as masked arrays do.
pub(crate) fn is_plain(given: &Bound<'_, PyAny>) -> bool {
    given.is_exact_instance_of::<PyUntypedArray>()
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
        let fits = |shape: &[usize]| match *shape {
            [_, columns] => columns > 0,
            [elements] => dim == Some(elements),
            _ => false,
        };
        let convert = || python::to_rows(given.py())?.call1((given, argument, dim));
        Self::read(given, argument, fits, convert)
    }

    /// Values to reduce: rows, or where all become one value, also an array of one dimension.
    pub(crate) fn of_values(
        given: &Bound<'py, PyAny>,
        argument: &'static str,
        each_row: bool,
    ) -> PyResult<Self> {
        let fits = |shape: &[usize]| match *shape {
            [_, columns] => columns > 0,
            [_] => !each_row,
            _ => false,
        };
        let convert = || python::to_values(given.py())?.call1((given, argument, each_row));
        Self::read(given, argument, fits, convert)
    }

    /// A plain array whose shape fits, Arrow's lists, or what the package's Python code makes of other objects: f32, f16, i8 or u8, in C order.
    fn read(
        given: &Bound<'py, PyAny>,
        argument: &'static str,
        fits: impl FnOnce(&[usize]) -> bool,
        convert: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        if is_plain(given)
            && let Ok(array) = given.cast::<PyUntypedArray>()
            && fits(array.shape())
            && let Some(direct) = Self::direct(given)
        {
            return Ok(direct);
        }
        if let Some(rows) = ArrowRows::of(given, argument)? {
            return Ok(Self::Arrow(rows));
        }
        Self::direct(&convert()?).ok_or_else(|| in_use(argument))
    }

    fn direct(given: &Bound<'py, PyAny>) -> Option<Self> {
        direct(given)
            .map(Self::F32)
            .or_else(|| direct(given).map(Self::F16))
            .or_else(|| direct(given).map(Self::I8))
            .or_else(|| direct(given).map(Self::U8))
    }

    /// The lengths of its axes.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::F32(array) => array.shape().to_vec(),
            Self::F16(array) => array.shape().to_vec(),
            Self::I8(array) => array.shape().to_vec(),
            Self::U8(array) => array.shape().to_vec(),
            Self::Arrow(rows) => rows.shape().to_vec(),
        }
    }

    /// [`view`](Self::view) for an index of these elements: one of bits takes bytes for eight bits each.
    pub(crate) fn view_of(
        &self,
        py: Python<'_>,
        argument: &str,
        elements: ElementKind,
    ) -> PyResult<HostVectors<'_>> {
        let view = self.view(py)?;
        if elements != ElementKind::Bits {
            return Ok(view);
        }
        let given = view.kind().numpy_name();
        view.of_bits().map_err(|_| {
            PyTypeError::new_err(format!(
                "{argument}: needed uint8, whose bytes are of eight bits each (np.packbits), given {given}"
            ))
        })
    }

    /// A view that the library reads.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<HostVectors<'_>> {
        let view = match self {
            Self::F32(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::from),
            Self::F16(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::from),
            Self::I8(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::from),
            Self::U8(array) => MatrixView::new(slice(array)?, last(array)).map(HostVectors::from),
            Self::Arrow(rows) => rows.view(),
        };
        view.map_err(|error| errors::exception(py, error))
    }
}

/// The length of the last axis: the elements of a vector. Values in one dimension may be none.
fn last<T: Element>(array: &Bound<'_, PyArray<T, numpy::IxDyn>>) -> usize {
    array.shape().last().copied().unwrap_or(1).max(1)
}
