//! `nf.Index`: what indexes of every kind do.

use std::path::PathBuf;

use nearfield::{AdapterKind, ElementKind, Metric, Neighbors, Result, SearchOptions};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::answers::{self, Asked, Out};
use crate::call::{self, Cancel, Ending, Kept, Progress};
use crate::device::Device;
use crate::given::{Given, refused};
use crate::ids::{Ids, RowFilter};
use crate::kinds::{Flat, Ivf};
use crate::shared::Shared;
use crate::vectors::Vectors;
use crate::{errors, kinds, python, shared};

/// What `nf.Flat` and `nf.Ivf` share. Searches run from many threads at once; a change waits for them, and they for it.
#[pyclass(frozen, subclass, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Index {
    index: Shared<nearfield::Index>,
    /// What never changes, to be read while another thread changes the index.
    pub(crate) device: Kept<nearfield::Device>,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) elements: ElementKind,
}

impl From<nearfield::Index> for Index {
    fn from(index: nearfield::Index) -> Self {
        let (device, metric) = (Kept::new(index.device().clone()), index.metric());
        let (dim, elements) = (index.dim(), index.elements());
        Self { index: Shared::new(index), device, metric, dim, elements }
    }
}

impl Index {
    /// Runs `work` on the index, beside other readers and without the interpreter.
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&nearfield::Index, &Ending) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.index.read(py, work)
    }

    pub(crate) fn all_ids(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.index.all_ids(py)
    }

    /// How many rows there are.
    pub(crate) fn count(&self, py: Python<'_>) -> PyResult<usize> {
        self.index.told(py, nearfield::Index::len)
    }

    pub(crate) fn filter(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<RowFilter>> {
        self.index.filter(py, filter)
    }

    /// Adds rows of the caller's and returns their ids.
    pub(crate) fn add_rows<'py>(
        &self,
        py: Python<'py>,
        rows: &Vectors<'py>,
        ids: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = rows.view_of(py, "rows", self.elements)?;
        let size = (rows.rows(), rows.rows());
        self.index.add(py, size, ids, progress, |index, options| index.add_with(rows, options))
    }
}

/// The radius in f32: distances are f32, and those below a number are below the next f32 that is not smaller.
pub(crate) fn f32_above(radius: f64) -> f32 {
    let rounded = radius as f32;
    if f64::from(rounded) < radius { rounded.next_up() } else { rounded }
}

#[pymethods]
impl Index {
    /// Adds rows, `[n, dim]`, and returns their ids, int64 `[n]`: those given, or insertion numbers, which are never given twice, also after
    /// an addition that `progress` or a signal has ended.
    #[pyo3(signature = (rows, ids=None, *, progress=None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        ids: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let _running = call::check(py)?;
        self.add_rows(py, &Vectors::of(rows, "rows", Some(self.dim))?, ids, progress)
    }

    /// Removes the rows with these ids, all or, after an error, none. Returns how many were removed: an id given twice counts once.
    fn remove(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.index.remove(py, ids)
    }

    /// Replaces the rows with these ids by others, `[ids, dim]`: all or, after an error, none.
    fn update(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let _running = call::check(py)?;
        let (ids, rows) = (Ids::of(ids)?, Vectors::of(rows, "rows", Some(self.dim))?);
        let (ids, rows) = (ids.view()?, rows.view_of(py, "rows", self.elements)?);
        self.index.change(py, |index, _| index.update(&ids, rows))
    }

    /// The rows with these ids, `[ids, dim]`, in their order: float32, or of bits uint8.
    fn get<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let ids = Ids::of(ids)?;
        let ids = ids.view()?;
        let values = self.read(py, |index, _| index.get(&ids))?;
        if self.elements == ElementKind::Bits {
            let bytes = answers::collected(values.len(), values.iter().map(|&value| value as u8));
            let bytes = bytes.map_err(|error| errors::exception(py, error))?;
            return Ok(answers::matrix(py, bytes, self.dim)?.into_any());
        }
        Ok(answers::matrix(py, values, self.dim)?.into_any())
    }

    /// Adds the rows of another index under their ids: all or, after an error, none.
    fn merge<'py>(slf: &Bound<'py, Self>, other: Given<Bound<'py, Self>>) -> PyResult<()> {
        let py = slf.py();
        let other = other.take("other", "another index")?;
        if slf.is(&other) {
            return Err(refused("other", "another index", "the same"));
        }
        // A copy of the other is not locked while this one is: two threads that merge both ways would wait for each other.
        let copy = other.get().read(py, |other, _| other.clone_to(other.device()))?;
        slf.get().index.change(py, |index, _| index.merge(&copy))
    }

    /// Gives up the memory of removed rows. Ids and answers stay.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.index.change(py, |index, _| index.compact())
    }

    /// Compiles the kernels of all searches, so that the first one does not wait for them.
    fn warm_up(&self, py: Python<'_>) -> PyResult<()> {
        self.read(py, |index, _| index.warm_up())
    }

    /// The k nearest rows of each query: `Neighbors(distances, ids)`, both `[queries, min(k, rows allowed)]`, nearest first, ties by the
    /// smaller id.
    ///
    /// `queries` is `[queries, dim]`, or one vector. `probes` is how many lists of an `Ivf` a query looks at, and `recall` the part of the
    /// true neighbours that must be found instead. It is measured with the first 1,000 queries since the index changed, and while there are
    /// fewer than 300 with rows of the index as well. `filter` is ids, a boolean mask with a value for each id, or a function of an id.
    /// `out` is a pair of arrays for the answer.
    // `_cancel` is for `search_async`.
    #[pyo3(signature = (queries, k=Given::from(10), *, probes=None, recall=None, filter=None, out=None, progress=None, _cancel=None), text_signature = "($self, queries, k=10, *, probes=None, recall=None, filter=None, out=None, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: Given<i64>,
        probes: Option<Given<i64>>,
        recall: Option<Given<f64>>,
        filter: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
        _cancel: Option<&Cancel>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _running = call::check(py)?;
        let (k, probes) = (k.count("k")?, probes.map(|probes| probes.count("probes")).transpose()?);
        let recall = recall.map(|recall| recall.take("recall", "a number from 0 to 1")).transpose()?;
        let queries = Vectors::of(queries, "queries", Some(self.dim))?;
        let queries = queries.view_of(py, "queries", self.elements)?;
        let out = out.map(|out| Out::given(out, queries.rows(), k)).transpose()?;
        let filter = self.filter(py, filter)?;
        let shown = Progress::start(py, progress, "searching", queries.rows())?;
        let asked = Asked::of(queries);
        let found = self.index.read_until(py, &Ending::by(_cancel), |index, ending| {
            let report = shown.reporter(ending);
            let mut options = SearchOptions::new(k).iterative_scan(true);
            options.progress = report.as_ref().map(|report| report as _);
            options.filter = filter.as_ref().map(RowFilter::as_filter);
            (options.probes, options.recall) = (probes, recall);
            Ok(index.search_with(asked.view()?, &options)?.neighbors)
        });
        let found = shown.close(py, found)?;
        Out::of_shape(py, out, [queries.rows(), answers::width(&found)?])?.filled(&found)
    }

    /// `search` without blocking the event loop, which goes on while a thread of its executor waits. Cancelling it ends the search.
    #[pyo3(signature = (queries, *arguments, **options), text_signature = "($self, queries, k=10, *, probes=None, recall=None, filter=None, out=None, progress=None)")]
    fn search_async<'py>(
        slf: &Bound<'py, Self>,
        queries: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        python::search_async(slf.py())?.call((slf, queries, arguments), options)
    }

    /// All rows nearer than `radius` to each query: `Ragged(offsets, distances, ids)`. Those of query i are at
    /// `offsets[i]:offsets[i + 1]`, nearest first, ties by the smaller id.
    #[pyo3(signature = (queries, radius, *, filter=None, progress=None))]
    fn search_within<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        radius: Given<f64>,
        filter: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _running = call::check(py)?;
        let radius = f32_above(radius.take("radius", "a number")?);
        let queries = Vectors::of(queries, "queries", Some(self.dim))?;
        let queries = queries.view_of(py, "queries", self.elements)?;
        let filter = self.filter(py, filter)?;
        let shown = Progress::start(py, progress, "searching", queries.rows())?;
        let found = self.read(py, |index, ending| {
            let report = shown.reporter(ending);
            let mut options = SearchOptions::within(radius);
            options.progress = report.as_ref().map(|report| report as _);
            options.filter = filter.as_ref().map(RowFilter::as_filter);
            Ok(index.search_with(queries, &options)?.neighbors)
        });
        answers::ragged(py, &shown.close(py, found)?)
    }

    /// The k nearest of each query's candidates: `Neighbors(distances, ids)`, both `[queries, min(k, candidates)]`. `ids` is `[queries,
    /// candidates]`, each once for a query, such as a search of an index of bits or of int8 finds. Distances are computed from the rows of
    /// this index.
    #[pyo3(signature = (queries, ids, k=Given::from(10)), text_signature = "($self, queries, ids, k=10)")]
    fn refine<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        ids: &Bound<'py, PyAny>,
        k: Given<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _running = call::check(py)?;
        let k: usize = k.count("k")?;
        let queries = Vectors::of(queries, "queries", Some(self.dim))?;
        let queries = queries.view_of(py, "queries", self.elements)?;
        let flat = python::to_candidates(py)?.call1((ids, queries.rows()))?;
        let ids = Ids::of(&flat)?;
        let ids = ids.view()?;
        let width = ids.len().checked_div(queries.rows()).unwrap_or(0);
        let offsets = answers::collected(queries.rows() + 1, (0..=queries.rows()).map(|query| query * width));
        let offsets = offsets.map_err(|error| errors::exception(py, error))?;
        let found =
            self.read(py, |index, _| index.refine(queries, &Neighbors::of_ids(&ids, &offsets)?, k))?;
        Out::of_shape(py, None, [queries.rows(), width.min(k)])?.filled(&found)
    }

    /// Writes the index to a file, whole or not at all. `nearfield.load` reads it.
    fn save(&self, py: Python<'_>, path: Given<PathBuf>) -> PyResult<()> {
        let path = path.take("path", "a path")?;
        self.read(py, |index, _| index.save(path))
    }

    /// The bytes that `save` writes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.index.bytes(py, nearfield::Index::to_bytes)
    }

    /// The same index on a device, this one's or another.
    fn to<'py>(&self, py: Python<'py>, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let device = crate::device::chosen(py, Some(device))?;
        let copy = self.read(py, |index, _| index.clone_to(&device))?;
        kinds::object(py, copy)
    }

    /// The ids of all rows, int64, ascending.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        answers::id_array(py, self.all_ids(py)?.into_iter())
    }

    /// Elements of a row.
    #[getter]
    fn dim(&self) -> usize {
        self.dim
    }

    /// "cosine", "ip", "l2" or "l2sq", and of bits "hamming" or "jaccard".
    #[getter]
    fn metric(&self) -> &'static str {
        self.metric.name()
    }

    /// How rows are stored: float32, float16, int8 or uint8; or the word "bfloat16" or "ubinary" (bytes of eight bits), for which numpy has
    /// no type of its own.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        kinds::dtype_of(py, self.elements)
    }

    /// Bytes that the index takes, on its device and beside it.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.index.told(py, |index| index.memory().total())
    }

    /// The device that it is on.
    #[getter]
    fn device(&self) -> Device {
        Device::from((*self.device).clone())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.count(py)
    }

    fn __contains__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.index.contains(py, id)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (rows, bytes, lists) =
            self.index.told(py, |index| (index.len(), index.memory().total(), index.lists()))?;
        let kind = if lists.is_some() { "Ivf" } else { "Flat" };
        let lists = lists.map_or(String::new(), |lists| format!(" in {lists} lists"));
        let (dim, dtype, metric) = (self.dim, self.elements.numpy_name(), self.metric);
        let size = bytes as f64 / f64::from(1 << 20);
        let device = &self.device.adapter().name;
        Ok(format!(
            "<nearfield.{kind}: {rows} rows x {dim} {dtype}{lists}, {metric}, {size:.1} MiB, on {device}>"
        ))
    }

    /// Pickles the bytes of `to_bytes`. An index on the processor comes back there, another one on the best device. Copies are made of
    /// them too.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        // A subclass would come back as its base, without its attributes.
        if !slf.is_exact_instance_of::<Flat>() && !slf.is_exact_instance_of::<Ivf>() {
            let base = if slf.is_instance_of::<Flat>() { "Flat" } else { "Ivf" };
            return Err(shared::not_pickled(slf, base));
        }
        let device = (this.device.adapter().kind == AdapterKind::Host).then_some("host");
        let arguments = (this.to_bytes(py)?, device);
        (python::unpickled(py)?, arguments).into_pyobject(py)
    }
}
