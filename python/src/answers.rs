//! Answers as numpy arrays.

use nearfield::{Error, HostVectors, Matrix, Neighbors, Ranking, Result};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayMethods, PyReadwriteArray2, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::given::{described, refused};
use crate::{errors, python};

/// Answers with more values than this are written without the interpreter.
const MANY: usize = 1 << 16;

/// Arrays of the caller's for the answer.
pub(crate) struct Out<'py> {
    /// Distances, or the scores of documents.
    distances: Bound<'py, PyArray2<f32>>,
    ids: Bound<'py, PyArray2<i64>>,
}

impl<'py> Out<'py> {
    /// The arrays of an argument `out`, checked before the search: it would be for nothing if they could not take its answer.
    pub(crate) fn given(given: &Bound<'py, PyAny>, queries: usize, k: usize) -> PyResult<Self> {
        let needed = "a tuple of two writable arrays in C order, float32 and int64";
        let wrong = |given: String| PyTypeError::new_err(format!("out: needed {needed}, given {given}"));
        let pair: PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = given.extract();
        let (distances, ids) = pair.map_err(|_| wrong(kind_of(given)))?;
        let distances: Bound<'py, PyArray2<f32>> =
            distances.cast_into().map_err(|error| wrong(kind_of(&error.into_inner())))?;
        let ids: Bound<'py, PyArray2<i64>> =
            ids.cast_into().map_err(|error| wrong(kind_of(&error.into_inner())))?;
        for given in [distances.shape(), ids.shape()] {
            if given[0] != queries || given[1] > k {
                let needed = format!("two arrays [{queries}, min({k}, rows allowed)]");
                return Err(refused("out", &needed, format_args!("one {given:?}")));
            }
        }
        drop((writable(&distances)?, writable(&ids)?));
        Ok(Self { distances, ids })
    }

    /// The caller's arrays, if they have this shape, or new ones.
    pub(crate) fn of_shape(py: Python<'py>, given: Option<Self>, shape: [usize; 2]) -> PyResult<Self> {
        let Some(out) = given else {
            return Ok(Self { distances: zeros(py, shape)?, ids: zeros(py, shape)? });
        };
        for given in [out.distances.shape(), out.ids.shape()] {
            if *given != shape {
                return Err(refused("out", &format!("two arrays {shape:?}"), format_args!("one {given:?}")));
            }
        }
        Ok(out)
    }

    /// Writes answers of the same length, and returns `Neighbors`.
    pub(crate) fn filled(self, found: &Neighbors) -> PyResult<Bound<'py, PyAny>> {
        let py = self.distances.py();
        self.write(found.hits().iter().map(|hit| (hit.distance, hit.id)))?;
        python::neighbors(py)?.call1((self.distances, self.ids))
    }

    /// Writes answers of the same length, and returns `Ranking`.
    pub(crate) fn ranked(self, found: &Ranking) -> PyResult<Bound<'py, PyAny>> {
        let py = self.distances.py();
        self.write(found.iter().flatten().map(|hit| (hit.score, hit.id)))?;
        python::ranking(py)?.call1((self.distances, self.ids))
    }

    fn write(&self, hits: impl Iterator<Item = (f32, u64)> + Send) -> PyResult<()> {
        let (mut distances, mut ids) = (writable(&self.distances)?, writable(&self.ids)?);
        let message = "out: needed arrays in C order, given another layout";
        let layout = |_| PyValueError::new_err(message);
        let distances = distances.as_slice_mut().map_err(layout)?;
        let ids = ids.as_slice_mut().map_err(layout)?;
        if ids.len() > MANY {
            self.ids.py().detach(|| fill(hits, distances, ids));
        } else {
            fill(hits, distances, ids);
        }
        Ok(())
    }
}

/// Describes an object in a word or two.
fn kind_of(given: &Bound<'_, PyAny>) -> String {
    match given.cast::<PyUntypedArray>() {
        Ok(array) => format!("{} in {} dimensions", array.dtype(), array.ndim()),
        Err(_) => described(given),
    }
}

/// A borrow that writes, which an array in use elsewhere or one that is read-only does not give.
fn writable<'py, T: Element>(array: &Bound<'py, PyArray2<T>>) -> PyResult<PyReadwriteArray2<'py, T>> {
    if !(array.is_c_contiguous() && array.data().is_aligned()) {
        return Err(PyValueError::new_err("out: needed arrays in C order, given another layout"));
    }
    array
        .try_readwrite()
        .map_err(|error| PyValueError::new_err(format!("out: needed arrays that can be written: {error}")))
}

fn fill(hits: impl Iterator<Item = (f32, u64)>, distances: &mut [f32], ids: &mut [i64]) {
    for ((hit, distance), id) in hits.zip(distances).zip(ids) {
        (*distance, *id) = (hit.0, hit.1 as i64);
    }
}

/// The length that all answers have.
///
/// # Errors
/// `RuntimeError` where they differ: every search of this module asks for full answers.
pub(crate) fn width(found: &Neighbors) -> PyResult<usize> {
    one_length(found.offsets().windows(2).map(|ends| ends[1] - ends[0]))
}

/// The one of these lengths, as of [`width`].
pub(crate) fn one_length(mut lengths: impl Iterator<Item = usize>) -> PyResult<usize> {
    let width = lengths.next().unwrap_or(0);
    if lengths.all(|length| length == width) {
        return Ok(width);
    }
    Err(pyo3::exceptions::PyRuntimeError::new_err(
        "nearfield: answers of different lengths, please report it",
    ))
}

/// Answers of any lengths as `Ragged`.
pub(crate) fn ragged<'py>(py: Python<'py>, found: &Neighbors) -> PyResult<Bound<'py, PyAny>> {
    let hits = found.hits();
    let (offsets, distances, ids) = py
        .detach(|| {
            let offsets = found.offsets();
            let offsets = collected(offsets.len(), offsets.iter().map(|&end| end as i64))?;
            let distances = collected(hits.len(), hits.iter().map(|hit| hit.distance))?;
            Ok((offsets, distances, collected(hits.len(), hits.iter().map(|hit| hit.id as i64))?))
        })
        .map_err(|error| errors::exception(py, error))?;
    let arrays =
        (PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, distances), PyArray1::from_vec(py, ids));
    python::ragged(py)?.call1(arrays)
}

/// Values as an array.
pub(crate) fn array<T: Element>(
    py: Python<'_>,
    values: impl ExactSizeIterator<Item = T>,
) -> PyResult<Bound<'_, PyArray1<T>>> {
    let values = collected(values.len(), values).map_err(|error| errors::exception(py, error))?;
    Ok(PyArray1::from_vec(py, values))
}

/// Ids as an array of int64.
pub(crate) fn id_array(
    py: Python<'_>,
    ids: impl ExactSizeIterator<Item = u64>,
) -> PyResult<Bound<'_, PyArray1<i64>>> {
    array(py, ids.map(|id| id as i64))
}

/// Values in memory that grows with the data: too little of it is an error.
pub(crate) fn collected<T>(count: usize, values: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut all = vec![];
    all.try_reserve_exact(count).map_err(|_| too_little(count.saturating_mul(size_of::<T>())))?;
    all.extend(values);
    Ok(all)
}

/// Appends values, as [`collected`] collects them.
pub(crate) fn append<T>(all: &mut Vec<T>, values: impl ExactSizeIterator<Item = T>) -> Result<()> {
    all.try_reserve(values.len())
        .map_err(|_| too_little((all.len() + values.len()).saturating_mul(size_of::<T>())))?;
    all.extend(values);
    Ok(())
}

fn too_little(bytes: usize) -> Error {
    Error::OutOfMemory { purpose: "an argument or an answer".into(), bytes: Some(bytes as u64) }
}

/// An array of zeros. Larger ones are numpy's own, because the crate panics where there is too little memory.
pub(crate) fn zeros<T: Element>(py: Python<'_>, shape: [usize; 2]) -> PyResult<Bound<'_, PyArray2<T>>> {
    let values = shape[0].saturating_mul(shape[1]);
    if values <= MANY {
        return Ok(PyArray2::zeros(py, shape, false));
    }
    let made = python::zeros(py)?.call1((shape, T::get_dtype(py)));
    let made = made.map_err(|_| errors::exception(py, too_little(values.saturating_mul(size_of::<T>()))))?;
    Ok(made.cast_into()?)
}

/// The queries of a search. In the place of none there is one of zeros, whose answer tells how long answers are.
pub(crate) enum Asked<'a> {
    Queries(HostVectors<'a>),
    Zeros(Matrix),
}

impl<'a> Asked<'a> {
    pub(crate) fn of(queries: HostVectors<'a>) -> Self {
        if queries.rows() > 0 {
            return Self::Queries(queries);
        }
        Self::Zeros(Matrix::F32(vec![0.0; queries.dim()], queries.dim()).to_kind(queries.kind()))
    }

    pub(crate) fn view(&self) -> Result<HostVectors<'_>> {
        match self {
            Self::Queries(queries) => Ok(*queries),
            Self::Zeros(zeros) => Ok(zeros.into()),
        }
    }
}

/// Values as an array of shape `[values / dim, dim]`.
pub(crate) fn matrix<'py, T: Element>(
    py: Python<'py>,
    values: Vec<T>,
    dim: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let rows = values.len().checked_div(dim).unwrap_or(0);
    PyArray1::from_vec(py, values).reshape([rows, dim])
}
