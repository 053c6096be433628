//! Times the library's own calls from inside of the module, for `benchmarks/overhead.py`: what a call from Python takes beyond them is
//! the module's. Nothing interrupts these calls, as in a Rust program. Only with the feature `timing`, which no wheel has.

use std::time::Instant;

use nearfield::{Error, Metric, Result};
use pyo3::prelude::*;

use crate::index::Index;
use crate::kinds::named;
use crate::vectors::Vectors;
use crate::{device, errors};

/// The seconds of each of `repeats` searches of the library.
#[pyfunction(name = "_time_search")]
pub(crate) fn time_search(
    index: &Bound<'_, Index>,
    queries: &Bound<'_, PyAny>,
    k: usize,
    repeats: usize,
) -> PyResult<Vec<f64>> {
    let (py, index) = (index.py(), index.get());
    let queries = Vectors::of(queries, "queries", Some(index.dim))?;
    let queries = queries.view(py)?;
    let searched = py.detach(|| {
        let index = index.locked();
        let timed = || {
            let start = Instant::now();
            let found = match &*index {
                nearfield::Index::Flat(flat) => flat.search(queries, k)?,
                nearfield::Index::Ivf(ivf) => ivf.search(queries, k, ivf.default_probes())?,
                _ => return Err(Error::Internal { message: "an index of a new kind".to_owned() }),
            };
            let seconds = start.elapsed().as_secs_f64();
            drop(found);
            Ok(seconds)
        };
        (0..repeats).map(|_| timed()).collect::<Result<_>>()
    });
    searched.map_err(|error| errors::exception(py, error))
}

/// The seconds in which the library makes a `Flat` of rows.
#[pyfunction(name = "_time_add")]
#[pyo3(signature = (rows, metric, device=None))]
pub(crate) fn time_add(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    metric: &str,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<f64> {
    let metric: Metric = named(py, metric)?;
    let rows = Vectors::of(rows, "rows", None)?;
    let rows = rows.view(py)?;
    let device = device::chosen(py, device)?;
    let added = py.detach(|| {
        let start = Instant::now();
        let mut index =
            nearfield::Flat::builder(&device, metric, rows.dim()).capacity(rows.rows()).build()?;
        index.add(rows)?;
        Ok(start.elapsed().as_secs_f64())
    });
    added.map_err(|error| errors::exception(py, error))
}
