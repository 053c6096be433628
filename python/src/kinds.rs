//! `nf.Flat` and `nf.Ivf`: how indexes are made and loaded.

use std::path::PathBuf;
use std::str::FromStr;

use nearfield::{ElementKind, HostVectors, Metric, Result, Screen};
use numpy::PyArray2;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{self, Progress};
use crate::ids::Ids;
use crate::index::Index;
use crate::vectors::Vectors;
use crate::{answers, device, errors, python};

/// numpy's name of an element type.
pub(crate) fn dtype_name(elements: ElementKind) -> &'static str {
    match elements {
        ElementKind::F16 => "float16",
        _ => "float32",
    }
}

/// A metric or another option by its name.
pub(crate) fn named<T: FromStr<Err = nearfield::Error>>(py: Python<'_>, name: &str) -> PyResult<T> {
    name.parse().map_err(|error| errors::exception(py, error))
}

/// A number that cannot be negative.
pub(crate) fn count(argument: &str, given: i64) -> PyResult<usize> {
    let needed = "a number of 0 or more";
    given.try_into().map_err(|_| PyValueError::new_err(format!("{argument}: needed {needed}, given {given}")))
}

/// How rows are stored: as the caller says, or as they are.
fn elements_of(
    py: Python<'_>,
    dtype: Option<&Bound<'_, PyAny>>,
    rows: Option<HostVectors<'_>>,
) -> PyResult<ElementKind> {
    let Some(dtype) = dtype else { return Ok(rows.map_or(ElementKind::F32, |rows| rows.kind())) };
    let name: String = python::dtype(py)?.call1((dtype,))?.getattr("name")?.extract()?;
    match name.as_str() {
        "float32" => Ok(ElementKind::F32),
        "float16" => Ok(ElementKind::F16),
        other => Err(PyTypeError::new_err(format!("dtype: needed float32 or float16, given {other}"))),
    }
}

/// An index as the Python object of its kind.
pub(crate) fn object(py: Python<'_>, index: nearfield::Index) -> PyResult<Bound<'_, PyAny>> {
    let is_flat = index.lists().is_none();
    let base = PyClassInitializer::from(Index::from(index));
    Ok(match is_flat {
        true => Bound::new(py, base.add_subclass(Flat))?.into_any(),
        false => Bound::new(py, base.add_subclass(Ivf))?.into_any(),
    })
}

/// An exact index: every search finds the k rows of smallest distance, ties by the smaller id.
///
/// `rows` is `[n, dim]`: a numpy array of float32 or float16, anything with `__dlpack__` or `__arrow_c_array__`, or lists. Without rows,
/// `dim` says how long they will be. `dtype` is how rows are stored, by default as they are given; float16 takes half the memory. `screen`
/// is "auto", "none" or "i8": whether an 8-bit copy of the rows speeds up searches; answers are the same.
#[pyclass(frozen, subclass, extends = Index, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Flat;

#[pymethods]
impl Flat {
    #[new]
    #[pyo3(signature = (rows=None, *, dim=None, metric="cosine", dtype=None, ids=None, device=None, screen="auto", progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new<'py>(
        py: Python<'py>,
        rows: Option<&Bound<'py, PyAny>>,
        dim: Option<i64>,
        metric: &str,
        dtype: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        screen: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        call::check(py)?;
        let (metric, screen): (Metric, Screen) = (named(py, metric)?, named(py, screen)?);
        let dim = dim.map(|dim| count("dim", dim)).transpose()?;
        let rows = rows.map(|rows| Vectors::of(rows, "rows", dim)).transpose()?;
        let view = rows.as_ref().map(|rows| rows.view(py)).transpose()?;
        let dim = match (dim, view) {
            (Some(dim), Some(view)) if dim != view.dim() => {
                let given = view.dim();
                return Err(PyValueError::new_err(format!(
                    "rows: needed dim {dim}, as the argument dim says, given {given}"
                )));
            }
            (Some(dim), _) => dim,
            (None, Some(view)) => view.dim(),
            (None, None) => return Err(PyValueError::new_err("rows: needed rows or dim, given neither")),
        };
        if ids.is_some() && rows.is_none() {
            return Err(PyValueError::new_err("ids: needed rows beside them, given none"));
        }
        let elements = elements_of(py, dtype, view)?;
        let device = device::chosen(py, device)?;
        let capacity = view.map_or(0, |view| view.rows());
        let index = call::run(py, |_| {
            nearfield::Flat::builder(&device, metric, dim)
                .elements(elements)
                .screen(screen)
                .capacity(capacity)
                .build()
        })?;
        let index = Index::from(nearfield::Index::from(index));
        if let Some(rows) = &rows {
            index.add_rows(py, rows, ids, progress)?;
        }
        Ok(PyClassInitializer::from(index).add_subclass(Self))
    }
}

/// An inverted file: rows lie in lists around trained centroids, and a search looks at the lists nearest to its query, at `probes` of them.
/// Among their rows its answer is exact.
///
/// It is trained on `rows`, `[n, dim]`, and holds them, unless `empty` is true. `lists` is how many lists there are, by default the power of
/// two nearest to four times the root of n. `seed` and `iterations` are those of the k-means that finds the centroids.
#[pyclass(frozen, subclass, extends = Index, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Ivf;

#[pymethods]
impl Ivf {
    #[new]
    #[pyo3(signature = (rows, *, lists=None, metric="cosine", dtype=None, ids=None, device=None, seed=0, iterations=10, empty=false, progress=None), text_signature = "(rows, *, lists='auto', metric='cosine', dtype=None, ids=None, device=None, seed=0, iterations=10, empty=False, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new<'py>(
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        lists: Option<&Bound<'py, PyAny>>,
        metric: &str,
        dtype: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        seed: i64,
        iterations: i64,
        empty: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        call::check(py)?;
        let metric: Metric = named(py, metric)?;
        let lists = lists.map(lists_of).transpose()?.flatten();
        let (seed, iterations) = (count("seed", seed)? as u64, count("iterations", iterations)?);
        if ids.is_some() && empty {
            return Err(PyValueError::new_err("ids: needed an index that holds its rows, given empty=True"));
        }
        let rows = Vectors::of(rows, "rows", None)?;
        let view = rows.view(py)?;
        let elements = elements_of(py, dtype, Some(view))?;
        let device = device::chosen(py, device)?;
        // Ids that do not fit are refused before the training.
        let count = ids.map(Ids::of).transpose()?.as_ref().map(Ids::view).transpose()?.map(|ids| ids.len());
        if let Some(given) = count.filter(|&count| count != view.rows()) {
            let needed = view.rows();
            return Err(PyValueError::new_err(format!(
                "ids: needed {needed} ids, one per row, given {given}"
            )));
        }
        let shown = Progress::start(py, progress, "training", iterations)?;
        let trained = call::run(py, |ending| {
            let report = shown.reporter(ending);
            let report = |iteration: usize, _: f64| {
                if let Some(report) = &report {
                    report(iteration);
                }
            };
            let capacity = if empty { 0 } else { view.rows() };
            let builder =
                nearfield::Ivf::builder(&device, metric, view.dim()).elements(elements).capacity(capacity);
            let builder = builder.kmeans(|means| means.iterations(iterations).seed(seed).progress(&report));
            match lists {
                Some(lists) => builder.lists(lists),
                None => builder,
            }
            .train(view)
        });
        shown.close(py, trained.is_ok())?;
        let index = Index::from(nearfield::Index::from(trained?));
        if !empty {
            index.add_rows(py, &rows, ids, progress)?;
        }
        Ok(PyClassInitializer::from(index).add_subclass(Self))
    }

    /// How many lists there are.
    #[getter]
    fn lists(slf: &Bound<'_, Self>) -> PyResult<usize> {
        of_ivf(slf, |ivf| Ok(ivf.lists()))
    }

    /// The probes of a search that does not say how many.
    #[getter]
    fn default_probes(slf: &Bound<'_, Self>) -> PyResult<usize> {
        of_ivf(slf, |ivf| Ok(ivf.default_probes()))
    }

    /// The centroids, float32 `[lists, dim]`.
    #[getter]
    fn centroids<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        answers::matrix(slf.py(), of_ivf(slf, |ivf| ivf.centroids())?, slf.as_super().get().dim)
    }

    /// The fewest probes with which queries like these find at least `recall` of their k nearest rows, on average: measured against exact
    /// search. Some hundred queries like those to come will do.
    #[pyo3(signature = (queries, k=10, recall=0.95))]
    fn probes_for_recall<'py>(
        slf: &Bound<'py, Self>,
        queries: &Bound<'py, PyAny>,
        k: i64,
        recall: f64,
    ) -> PyResult<usize> {
        let k = count("k", k)?;
        let queries = Vectors::of(queries, "queries", Some(slf.as_super().get().dim))?;
        let queries = queries.view(slf.py())?;
        of_ivf(slf, |ivf| ivf.probes_for_recall(queries, k, recall))
    }
}

/// The number of lists that an argument asks for; none for "auto".
fn lists_of(given: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if let Ok(word) = given.extract::<&str>()
        && word == "auto"
    {
        return Ok(None);
    }
    let refused = || PyTypeError::new_err(format!("lists: needed a number or \"auto\", given {given}"));
    count("lists", given.extract().map_err(|_| refused())?).map(Some)
}

/// Runs `work` on the index with lists of an `Ivf`.
fn of_ivf<T: Send>(
    ivf: &Bound<'_, Ivf>,
    work: impl FnOnce(&nearfield::Ivf) -> Result<T> + Send,
) -> PyResult<T> {
    ivf.as_super().get().read(ivf.py(), |index, _| match index {
        nearfield::Index::Ivf(lists) => work(lists),
        _ => Err(nearfield::Error::Internal { message: "an Ivf without lists".to_owned() }),
    })
}

/// Loads an index that `save` has written, on a device or on the best.
#[pyfunction]
#[pyo3(signature = (path, device=None))]
pub(crate) fn load<'py>(
    py: Python<'py>,
    path: PathBuf,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let device = device::chosen(py, device)?;
    object(py, call::run(py, |_| nearfield::Index::load(&device, path))?)
}

/// Loads an index from the bytes of `to_bytes`, on a device or on the best.
#[pyfunction]
#[pyo3(signature = (data, device=None))]
pub(crate) fn from_bytes<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let device = device::chosen(py, device)?;
    let bytes = data.as_bytes();
    object(py, call::run(py, |_| nearfield::Index::loader(&device).load_bytes(bytes))?)
}
