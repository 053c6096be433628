//! `nf.Flat` and `nf.Ivf`: how indexes are made and loaded.

use std::path::PathBuf;
use std::str::FromStr;

use nearfield::{ElementKind, Metric, Quantization, Result};
use numpy::PyArray2;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::call::{self, Progress};
use crate::given::{Given, described, refused};
use crate::ids::Ids;
use crate::index::Index;
use crate::vectors::Vectors;
use crate::{answers, device, errors, python};

/// A metric or another option by its name.
pub(crate) fn named<T: FromStr<Err = nearfield::Error>>(py: Python<'_>, name: &str) -> PyResult<T> {
    name.parse().map_err(|error| errors::exception(py, error))
}

/// How rows are stored, and whether those of other types are quantised to that one: as the caller says, or as they are; bytes as bits for a
/// metric of bits.
pub(crate) fn stored_as(
    py: Python<'_>,
    (dtype, store): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    (metric, rows): (Metric, Option<ElementKind>),
) -> PyResult<(ElementKind, bool)> {
    match (dtype, store) {
        (Some(_), Some(_)) => Err(refused("store", "dtype or store", "both")),
        (Some(dtype), None) => Ok((kind_of(py, "dtype", dtype)?, false)),
        (None, Some(store)) => Ok((kind_of(py, "store", store)?, true)),
        (None, None) => Ok(match (metric.default_elements(), rows) {
            (ElementKind::F32, Some(rows)) => (rows, false),
            (elements, _) => (elements, false),
        }),
    }
}

/// An element type: a dtype of numpy, or the word for bits.
pub(crate) fn kind_of(
    py: Python<'_>,
    argument: &'static str,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<ElementKind> {
    if dtype.extract::<&str>().is_ok_and(|word| word == ElementKind::Bits.numpy_name()) {
        return Ok(ElementKind::Bits);
    }
    let refused = |given| {
        PyTypeError::new_err(format!(
            "{argument}: needed float32, float16, int8, uint8 or \"ubinary\", given {given}"
        ))
    };
    let known = python::dtype(py)?.call1((dtype,)).map_err(|_| refused(described(dtype)))?;
    let name: String = known.getattr("name")?.extract()?;
    // numpy has bfloat16 from other packages alone, and arrays of it are widened.
    let kind =
        name.parse().ok().filter(|kind| ElementKind::NUMBERS.contains(kind) && *kind != ElementKind::BF16);
    kind.ok_or_else(|| refused(name))
}

/// What `dtype` tells of an element type: numpy's type, or a word where it has none.
pub(crate) fn dtype_of(py: Python<'_>, kind: ElementKind) -> PyResult<Bound<'_, PyAny>> {
    let name = kind.numpy_name();
    match kind {
        ElementKind::BF16 | ElementKind::Bits => Ok(PyString::new(py, name).into_any()),
        _ => python::dtype(py)?.call1((name,)),
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
/// `rows` is `[n, dim]`: a numpy array of float32, float16, int8 or uint8, anything with `__dlpack__` or `__arrow_c_array__`, or lists. Without rows,
/// `dim` says how long they will be. `dtype` is how rows are stored, by default as they are given: float16 takes half the memory, and rows of
/// float16, int8 and uint8 only; int8 and uint8 take a quarter, and rows of their own type, whose "l2sq" and "ip" to integers are exact, rounded once.
/// The metrics "hamming" and "jaccard" are of bits: rows and queries are then uint8 `[n, dim]`, bytes of eight bits as `np.packbits` makes them,
/// which are stored as such (`dtype="ubinary"`) and compared exactly. `store` in place of `dtype` quantises rows of other types: "int8"
/// under cosine, where the scale of a row has no effect, or "float16"; searches of the quantised rows are exact. `quantization` is "auto",
/// "none" or "int8": whether an 8-bit copy of the rows speeds up searches; answers are the same.
#[pyclass(frozen, subclass, extends = Index, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Flat;

#[pymethods]
impl Flat {
    #[new]
    #[pyo3(signature = (rows=None, *, dim=None, metric=Given::from("cosine"), dtype=None, store=None, ids=None, device=None, quantization=Given::from("auto"), progress=None), text_signature = "(rows=None, *, dim=None, metric='cosine', dtype=None, store=None, ids=None, device=None, quantization='auto', progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new<'py>(
        py: Python<'py>,
        rows: Option<&Bound<'py, PyAny>>,
        dim: Option<Given<i64>>,
        metric: Given<&str>,
        dtype: Option<&Bound<'py, PyAny>>,
        store: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        quantization: Given<&str>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let _running = call::check(py)?;
        let metric: Metric = named(py, metric.word("metric")?)?;
        let quantization: Quantization = named(py, quantization.word("quantization")?)?;
        let dim = dim.map(|dim| dim.count("dim")).transpose()?;
        let rows = rows.map(|rows| Vectors::of(rows, "rows", dim)).transpose()?;
        let view = rows.as_ref().map(|rows| rows.view(py)).transpose()?;
        let dim = match (dim, view) {
            (Some(dim), Some(view)) if dim != view.dim() => {
                return Err(refused("rows", &format!("dim {dim}, as the argument dim says"), view.dim()));
            }
            (Some(dim), _) => dim,
            (None, Some(view)) => view.dim(),
            (None, None) => return Err(refused("rows", "rows or dim", "neither")),
        };
        if ids.is_some() && rows.is_none() {
            return Err(refused("ids", "rows beside them", "none"));
        }
        let kind = view.map(|view| view.kind());
        let (elements, quantizes) = stored_as(py, (dtype, store), (metric, kind))?;
        let device = device::chosen(py, device)?;
        let capacity = view.map_or(0, |view| view.rows());
        let index = call::run(py, |_| {
            let builder = nearfield::Flat::builder(&device, metric, dim);
            let builder = if quantizes { builder.store(elements) } else { builder.elements(elements) };
            builder.quantization(quantization).capacity(capacity).build()
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
/// `metric`, `dtype` and `store` are as in `Flat`.
#[pyclass(frozen, subclass, extends = Index, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Ivf;

#[pymethods]
impl Ivf {
    #[new]
    #[pyo3(signature = (rows, *, lists=Given::from(Lists(None)), metric=Given::from("cosine"), dtype=None, store=None, ids=None, device=None, seed=Given::from(0), iterations=Given::from(10), empty=Given::from(false), progress=None), text_signature = "(rows, *, lists='auto', metric='cosine', dtype=None, store=None, ids=None, device=None, seed=0, iterations=10, empty=False, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new<'py>(
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        lists: Given<Lists>,
        metric: Given<&str>,
        dtype: Option<&Bound<'py, PyAny>>,
        store: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        seed: Given<i64>,
        iterations: Given<i64>,
        empty: Given<bool>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let _running = call::check(py)?;
        let metric: Metric = named(py, metric.word("metric")?)?;
        let Lists(lists) = lists.take("lists", "\"auto\" or a whole number from 0 to 2^63 - 1")?;
        let lists = lists.map(|lists| Given::from(lists).count("lists")).transpose()?;
        let (seed, iterations) = (seed.count("seed")? as u64, iterations.count("iterations")?);
        let empty = empty.take("empty", "True or False")?;
        if ids.is_some() && empty {
            return Err(refused("ids", "an index that holds its rows", "empty=True"));
        }
        let rows = Vectors::of(rows, "rows", None)?;
        let view = rows.view_of(py, "rows", metric.default_elements())?;
        let (elements, quantizes) = stored_as(py, (dtype, store), (metric, Some(view.kind())))?;
        let device = device::chosen(py, device)?;
        // Ids that do not fit are refused before the training.
        let count = ids.map(Ids::of).transpose()?.as_ref().map(Ids::view).transpose()?.map(|ids| ids.len());
        if let Some(given) = count.filter(|&count| count != view.rows()) {
            return Err(refused("ids", &format!("{} ids, one a row", view.rows()), given));
        }
        let shown = Progress::start(py, progress, "training", iterations)?;
        let trained = call::run(py, |ending| {
            let report = shown.iterations(ending);
            let capacity = if empty { 0 } else { view.rows() };
            let builder = nearfield::Ivf::builder(&device, metric, view.dim()).capacity(capacity);
            let builder = if quantizes { builder.store(elements) } else { builder.elements(elements) };
            let builder = builder.kmeans(|means| means.iterations(iterations).seed(seed).progress(&report));
            match lists {
                Some(lists) => builder.lists(lists),
                None => builder,
            }
            .train(view)
        });
        let index = Index::from(nearfield::Index::from(shown.close(py, trained)?));
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

    /// The centroids, float32 `[lists, dim]`; of bits `[lists, 8 dim]`, means of bits as numbers 0 and 1.
    #[getter]
    fn centroids<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (centroids, lists) = of_ivf(slf, |ivf| Ok((ivf.centroids()?, ivf.lists())))?;
        let dim = centroids.len() / lists;
        answers::matrix(slf.py(), centroids, dim)
    }

    /// The fewest probes with which queries like these find at least `recall` of their k nearest rows, on average and with a margin for
    /// other queries: measured against exact search. Some hundred queries like those to come will do.
    #[pyo3(signature = (queries, k=Given::from(10), recall=Given::from(0.95)), text_signature = "($self, queries, k=10, recall=0.95)")]
    fn probes_for_recall<'py>(
        slf: &Bound<'py, Self>,
        queries: &Bound<'py, PyAny>,
        k: Given<i64>,
        recall: Given<f64>,
    ) -> PyResult<usize> {
        let (k, recall) = (k.count("k")?, recall.take("recall", "a number from 0 to 1")?);
        let index = slf.as_super().get();
        let queries = Vectors::of(queries, "queries", Some(index.dim))?;
        let queries = queries.view_of(slf.py(), "queries", index.elements)?;
        of_ivf(slf, |ivf| ivf.probes_for_recall(queries, k, recall))
    }
}

/// The number of lists that an argument asks for; none for "auto".
#[derive(Debug)]
struct Lists(Option<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Lists {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let is_auto = given.extract::<&str>().is_ok_and(|word| word == "auto");
        if is_auto { Ok(Self(None)) } else { given.extract().map(|lists| Self(Some(lists))) }
    }
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
    path: Given<PathBuf>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let path = path.take("path", "a path")?;
    let device = device::chosen(py, device)?;
    object(py, call::run(py, |_| nearfield::Index::load(&device, path))?)
}

/// Loads an index from the bytes of `to_bytes`, on a device or on the best.
#[pyfunction]
#[pyo3(signature = (data, device=None))]
pub(crate) fn from_bytes<'py>(
    py: Python<'py>,
    data: Given<Bound<'py, PyBytes>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let data = data.take("data", "bytes")?;
    let device = device::chosen(py, device)?;
    let bytes = data.as_bytes();
    object(py, call::run(py, |_| nearfield::Index::loader(&device).load_bytes(bytes))?)
}
