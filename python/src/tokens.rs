//! Token vectors of Python objects: documents, or queries.

use nearfield::TokenVectors;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::vectors::Vectors;
use crate::{answers, errors, python};

/// How one array holds the token vectors of several documents or queries, as the caller says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<'a, 'py> {
    /// What stands before `mask` and `offsets` in the names of these arguments.
    pub(crate) prefix: &'static str,
    pub(crate) mask: Option<&'a Bound<'py, PyAny>>,
    pub(crate) offsets: Option<&'a Bound<'py, PyAny>>,
}

/// Token vectors of the caller's: the memory of rows stays borrowed as long as this lives.
pub(crate) struct Tokens<'py> {
    rows: Vectors<'py>,
    /// Where the tokens of each document or query begin, and the end of the last.
    offsets: Vec<usize>,
}

impl<'py> Tokens<'py> {
    /// The documents or queries of an argument. Without `dim` there has to be one.
    pub(crate) fn of(
        given: &Bound<'py, PyAny>,
        argument: &'static str,
        layout: Layout<'_, 'py>,
        dim: Option<usize>,
    ) -> PyResult<Self> {
        let (py, Layout { prefix, mask, offsets }) = (given.py(), layout);
        let found = python::to_tokens(py)?.call1((given, argument, prefix, mask, offsets, dim))?;
        let (rows, known): (Bound<'py, PyAny>, Bound<'py, PyAny>) = found.extract()?;
        let rows = Vectors::of(&rows, argument, dim)?;
        let count = rows.view(py)?.rows();
        let offsets = if known.is_none() { offsets } else { Some(&known) };
        let offsets = python::to_offsets(py)?.call1((offsets, argument, prefix, count))?;
        let offsets: Bound<'py, PyArray1<i64>> = offsets.cast_into()?;
        let offsets = offsets.readonly();
        let offsets = offsets.as_slice()?;
        let offsets = answers::collected(offsets.len(), offsets.iter().map(|&offset| offset as usize));
        Ok(Self { rows, offsets: offsets.map_err(|error| errors::exception(py, error))? })
    }

    /// How many documents or queries there are.
    pub(crate) fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// A view that the library reads.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<TokenVectors<'_>> {
        let view = TokenVectors::new(self.rows.view(py)?, &self.offsets);
        view.map_err(|error| errors::exception(py, error))
    }

    /// The weight of each token, `[tokens]`, which the caller gives as the tokens themselves.
    pub(crate) fn weights(
        &self,
        given: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyReadonlyArray1<'py, f32>> {
        let py = given.py();
        let offsets = answers::array(py, self.offsets.iter().map(|&offset| offset as i64))?;
        let weights = python::to_weights(py)?.call1((given, mask, offsets))?;
        Ok(weights.cast_into::<PyArray1<f32>>()?.readonly())
    }
}
