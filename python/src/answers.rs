//! Answers as numpy arrays.

use nearfield::{Neighbor, Neighbors};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadwriteArray2, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::python;

/// Answers with more values than this are written without the interpreter.
const MANY: usize = 1 << 16;

/// Arrays of the caller's for the answer.
pub(crate) struct Out<'py> {
    distances: Bound<'py, PyArray2<f32>>,
    ids: Bound<'py, PyArray2<i64>>,
}

impl<'py> Out<'py> {
    /// The arrays of an argument `out`, or new ones, `[queries, width]`.
    pub(crate) fn of(
        py: Python<'py>,
        given: Option<&Bound<'py, PyAny>>,
        [queries, width]: [usize; 2],
    ) -> PyResult<Self> {
        let shape = [queries, width];
        let Some(given) = given else {
            let (distances, ids) = (PyArray2::zeros(py, shape, false), PyArray2::zeros(py, shape, false));
            return Ok(Self { distances, ids });
        };
        let needed = "a tuple of two writable arrays in C order, float32 and int64";
        let refused = |given: String| PyTypeError::new_err(format!("out: needed {needed}, given {given}"));
        let pair: Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), _> = given.extract();
        let (distances, ids) = pair.map_err(|_| refused(kind_of(given)))?;
        let distances = distances.cast_into().map_err(|error| refused(kind_of(&error.into_inner())))?;
        let ids: Bound<'py, PyArray2<i64>> =
            ids.cast_into().map_err(|error| refused(kind_of(&error.into_inner())))?;
        let distances: Bound<'py, PyArray2<f32>> = distances;
        for given in [distances.shape(), ids.shape()] {
            if *given != shape {
                let message = format!("out: needed two arrays [{queries}, {width}], given one {given:?}");
                return Err(PyValueError::new_err(message));
            }
        }
        Ok(Self { distances, ids })
    }

    /// Writes answers of the same length, and returns `Neighbors`.
    pub(crate) fn filled(self, found: &Neighbors) -> PyResult<Bound<'py, PyAny>> {
        let py = self.distances.py();
        {
            let (mut distances, mut ids) = (writable(&self.distances)?, writable(&self.ids)?);
            let message = "out: needed arrays in C order, given another layout";
            let layout = |_| PyValueError::new_err(message);
            let distances = distances.as_slice_mut().map_err(layout)?;
            let ids = ids.as_slice_mut().map_err(layout)?;
            let hits = found.hits();
            if hits.len() > MANY {
                py.detach(|| fill(hits, distances, ids));
            } else {
                fill(hits, distances, ids);
            }
        }
        python::neighbors(py)?.call1((self.distances, self.ids))
    }
}

/// What an object is, in a word or two.
fn kind_of(given: &Bound<'_, PyAny>) -> String {
    match given.cast::<PyUntypedArray>() {
        Ok(array) => format!("{} in {} dimensions", array.dtype(), array.ndim()),
        Err(_) => given.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string()),
    }
}

/// A borrow that writes, which an array in use elsewhere or one that is read-only does not give.
fn writable<'py, T: numpy::Element>(array: &Bound<'py, PyArray2<T>>) -> PyResult<PyReadwriteArray2<'py, T>> {
    if !(array.is_c_contiguous() && array.data().is_aligned()) {
        return Err(PyValueError::new_err("out: needed arrays in C order, given another layout"));
    }
    array
        .try_readwrite()
        .map_err(|error| PyValueError::new_err(format!("out: needed arrays that can be written: {error}")))
}

fn fill(hits: &[Neighbor], distances: &mut [f32], ids: &mut [i64]) {
    for ((hit, distance), id) in hits.iter().zip(distances).zip(ids) {
        (*distance, *id) = (hit.distance, hit.id as i64);
    }
}

/// The length that all answers have.
///
/// # Errors
/// `RuntimeError` where they differ: every search of this module asks for full answers.
pub(crate) fn width(found: &Neighbors) -> PyResult<usize> {
    let width = found.offsets().windows(2).next().map_or(0, |ends| ends[1] - ends[0]);
    if found.offsets().windows(2).all(|ends| ends[1] - ends[0] == width) {
        return Ok(width);
    }
    Err(pyo3::exceptions::PyRuntimeError::new_err(
        "nearfield: answers of different lengths, please report it",
    ))
}

/// Answers of any lengths as `Ragged`.
pub(crate) fn ragged<'py>(py: Python<'py>, found: &Neighbors) -> PyResult<Bound<'py, PyAny>> {
    let hits = found.hits();
    let (offsets, distances, ids) = py.detach(|| {
        let offsets: Vec<i64> = found.offsets().iter().map(|&end| end as i64).collect();
        let distances: Vec<f32> = hits.iter().map(|hit| hit.distance).collect();
        let ids: Vec<i64> = hits.iter().map(|hit| hit.id as i64).collect();
        (offsets, distances, ids)
    });
    let arrays =
        (PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, distances), PyArray1::from_vec(py, ids));
    python::ragged(py)?.call1(arrays)
}

/// Ids as an array of int64.
pub(crate) fn id_array(py: Python<'_>, ids: impl Iterator<Item = u64>) -> Bound<'_, PyArray1<i64>> {
    PyArray1::from_iter(py, ids.map(|id| id as i64))
}

/// Values as an array of shape `[values / dim, dim]`.
pub(crate) fn matrix<'py>(
    py: Python<'py>,
    values: Vec<f32>,
    dim: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let rows = values.len().checked_div(dim).unwrap_or(0);
    PyArray1::from_vec(py, values).reshape([rows, dim])
}
