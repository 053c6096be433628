//! `nf.MultiVector` and `nf.maxsim`: documents of several token vectors each.

use std::path::PathBuf;

use nearfield::{AdapterKind, ElementKind, Matrix, MaxSimOptions, Metric, TokenVectors};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::answers::{self, Out};
use crate::call::{self, Cancel, Ending, Kept, Progress};
use crate::device::{self, Device};
use crate::given::{Given, refused};
use crate::ids::{Ids, RowFilter};
use crate::kinds::{dtype_of, stored_as};
use crate::python;
use crate::shared::{Shared, not_pickled};
use crate::tokens::{Layout, Tokens};

/// An exact index of documents of several token vectors each, as models of late interaction make them (ColBERT, ColPali).
///
/// The score of a document is its MaxSim: the sum, over the tokens of a query, of the largest inner product with a token of the document.
/// Larger scores are nearer. `dim` is the number of elements of a token. `dtype` is how tokens are stored, float32 unless said otherwise;
/// float16, int8 and uint8 take tokens of that type only. `store="float16"` in place of it takes float32 and rounds. `capacity` is how many
/// tokens are expected, whose memory is then taken at once.
///
/// Documents, and queries as well, are a list of arrays `[tokens, dim]`, as the encoders of sentence-transformers and PyLate return them; or
/// one such array for one of them; or all in one array: `[n, tokens, dim]`, of which `mask`, `[n, tokens]`, tells the tokens that count, or
/// `[tokens, dim]` with `offsets`, `[n + 1]`, where the tokens of each begin, and the end of the last.
#[pyclass(frozen, subclass, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct MultiVector {
    index: Shared<nearfield::MultiVector>,
    /// What never changes, to be read while another thread changes the index.
    device: Kept<nearfield::Device>,
    dim: usize,
    elements: ElementKind,
}

impl From<nearfield::MultiVector> for MultiVector {
    fn from(index: nearfield::MultiVector) -> Self {
        let (device, dim) = (Kept::new(index.device().clone()), index.dim());
        let elements = index.elements();
        Self { index: Shared::new(index), device, dim, elements }
    }
}

#[pymethods]
impl MultiVector {
    #[new]
    #[pyo3(signature = (dim, *, dtype=None, store=None, capacity=Given::from(0), device=None), text_signature = "(dim, *, dtype=None, store=None, capacity=0, device=None)")]
    fn new<'py>(
        py: Python<'py>,
        dim: Given<i64>,
        dtype: Option<&Bound<'py, PyAny>>,
        store: Option<&Bound<'py, PyAny>>,
        capacity: Given<i64>,
        device: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let (dim, capacity) = (dim.count("dim")?, capacity.count("capacity")?);
        let (elements, quantizes) = stored_as(py, (dtype, store), (Metric::InnerProduct, None))?;
        if elements == ElementKind::Bits {
            let argument = if quantizes { "store" } else { "dtype" };
            return Err(refused(argument, "a type of numbers", elements.numpy_name()));
        }
        let device = device::chosen(py, device)?;
        let index = call::run(py, |_| {
            let builder = nearfield::MultiVector::builder(&device, dim).capacity(capacity);
            if quantizes { builder.store(elements) } else { builder.elements(elements) }.build()
        })?;
        Ok(index.into())
    }

    /// Adds documents and returns their ids, int64 `[n]`: those given, or insertion numbers, which are never given twice, also after an
    /// addition that `progress` or a signal has ended. Progress counts tokens.
    #[pyo3(signature = (documents, ids=None, *, mask=None, offsets=None, progress=None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        documents: &Bound<'py, PyAny>,
        ids: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        offsets: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let _running = call::check(py)?;
        let layout = Layout { prefix: "", mask, offsets };
        let documents = Tokens::of(documents, "documents", layout, Some(self.dim))?;
        let (count, documents) = (documents.count(), documents.view(py)?);
        let size = (count, documents.tokens());
        self.index.add(py, size, ids, progress, |index, options| index.add_with(&documents, options))
    }

    /// Removes the documents with these ids, all or, after an error, none. Returns how many were removed: an id given twice counts once.
    fn remove(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.index.remove(py, ids)
    }

    /// Replaces the documents with these ids by others, of any numbers of tokens: all or, after an error, none.
    #[pyo3(signature = (ids, documents, *, mask=None, offsets=None))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        documents: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        offsets: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let _running = call::check(py)?;
        let ids = Ids::of(ids)?;
        let layout = Layout { prefix: "", mask, offsets };
        let documents = Tokens::of(documents, "documents", layout, Some(self.dim))?;
        let (ids, documents) = (ids.view()?, documents.view(py)?);
        self.index.change(py, |index, _| index.update(&ids, &documents))
    }

    /// The tokens of a document, float32 `[tokens, dim]`.
    fn get<'py>(&self, py: Python<'py>, id: Given<i64>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let id = id.count("id")? as u64;
        let values = self.index.read(py, |index, _| Ok(index.get(id)?.into_f32()))?;
        answers::matrix(py, values, self.dim)
    }

    /// Gives up the memory of removed documents. Ids and answers stay.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.index.change(py, |index, _| index.compact())
    }

    /// Puts the tokens into lists around centroids, which are trained on a sample of them: `search` with `probes` then scores documents
    /// alone that have tokens near to those of the query. 0 stands for as many lists as `Ivf` would have. Lists follow all changes.
    #[pyo3(signature = (lists=Given::from(0)), text_signature = "($self, lists=0)")]
    fn build_lists(&self, py: Python<'_>, lists: Given<i64>) -> PyResult<()> {
        let lists = lists.count("lists")?;
        self.index.change(py, |index, _| {
            let usual = nearfield::Ivf::recommend(index.tokens() as usize);
            index.build_lists(if lists == 0 { usual } else { lists })
        })
    }

    /// The k documents of largest score for each query: `Ranking(scores, ids)`, both `[queries, min(k, documents allowed)]`, the largest
    /// first, ties by the smaller id.
    ///
    /// `filter` is ids, a boolean mask with a value for each id, or a function of an id: with the ids that another search has found, it puts
    /// these in order. `weights` are the weights of the queries' tokens, from 0 to 1,000,000, laid out as the tokens are, without `dim`.
    /// `mean=True` divides them by their sum, query by query, so that scores of queries of different lengths can be compared. `mask` and
    /// `offsets` are of the queries.
    ///
    /// With `probes` each token of a query finds `candidates_per_token` tokens in that many lists (see `build_lists`), and the `candidates`
    /// most promising documents of these are scored.
    // `_cancel` is for `search_async`.
    #[pyo3(signature = (queries, k=Given::from(10), *, filter=None, weights=None, mean=Given::from(false), mask=None, offsets=None, probes=None, candidates_per_token=Given::from(256), candidates=Given::from(1024), progress=None, _cancel=None), text_signature = "($self, queries, k=10, *, filter=None, weights=None, mean=False, mask=None, offsets=None, probes=None, candidates_per_token=256, candidates=1024, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: Given<i64>,
        filter: Option<&Bound<'py, PyAny>>,
        weights: Option<&Bound<'py, PyAny>>,
        mean: Given<bool>,
        mask: Option<&Bound<'py, PyAny>>,
        offsets: Option<&Bound<'py, PyAny>>,
        probes: Option<Given<i64>>,
        candidates_per_token: Given<i64>,
        candidates: Given<i64>,
        progress: Option<&Bound<'py, PyAny>>,
        _cancel: Option<&Cancel>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _running = call::check(py)?;
        let (k, mean) = (k.count("k")?, mean.take("mean", "True or False")?);
        let probes = probes.map(|probes| probes.count("probes")).transpose()?;
        let of_token = candidates_per_token.count("candidates_per_token")?;
        let candidates = candidates.count("candidates")?;
        let tokens = Tokens::of(queries, "queries", Layout { prefix: "", mask, offsets }, Some(self.dim))?;
        let given = weights.map(|weights| tokens.weights(weights, mask)).transpose()?;
        let weights = given.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let queries = tokens.view(py)?;
        let filter = self.index.filter(py, filter)?;
        let shown = Progress::start(py, progress, "searching", tokens.count())?;
        // In the place of no queries there is one of zeros, whose answer tells how long answers are.
        let zeros = Matrix::F32(vec![0.0; self.dim], self.dim);
        let (asked, weights) =
            if tokens.count() > 0 { (queries, weights) } else { (TokenVectors::from(&zeros), None) };
        let found = self.index.read_until(py, &Ending::by(_cancel), |index, ending| {
            let report = shown.reporter(ending);
            let mut options = MaxSimOptions::new(k).mean(mean);
            options.progress = report.as_ref().map(|report| report as _);
            options.filter = filter.as_ref().map(RowFilter::as_filter);
            options.weights = weights;
            options.probes = probes;
            options.candidates_per_token = of_token;
            options.candidates = candidates;
            index.search_with(&asked, &options)
        });
        let found = shown.close(py, found)?;
        let width = answers::one_length(found.iter().map(<[_]>::len))?;
        Out::of_shape(py, None, [tokens.count(), width])?.ranked(&found)
    }

    /// `search` without blocking the event loop, which goes on while a thread of its executor waits. Cancelling it ends the search.
    #[pyo3(signature = (queries, *arguments, **options), text_signature = "($self, queries, k=10, *, filter=None, weights=None, mean=False, mask=None, offsets=None, probes=None, candidates_per_token=256, candidates=1024, progress=None)")]
    fn search_async<'py>(
        slf: &Bound<'py, Self>,
        queries: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        python::search_async(slf.py())?.call((slf, queries, arguments), options)
    }

    /// Writes the index to a file, whole or not at all. `MultiVector.load` reads it.
    fn save(&self, py: Python<'_>, path: Given<PathBuf>) -> PyResult<()> {
        let path = path.take("path", "a path")?;
        self.index.read(py, |index, _| index.save(path))
    }

    /// The bytes that `save` writes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.index.bytes(py, nearfield::MultiVector::to_bytes)
    }

    /// Loads an index that `save` has written, on a device or on the best.
    #[staticmethod]
    #[pyo3(signature = (path, device=None))]
    fn load(py: Python<'_>, path: Given<PathBuf>, device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let path = path.take("path", "a path")?;
        let device = device::chosen(py, device)?;
        Ok(call::run(py, |_| nearfield::MultiVector::load(&device, path))?.into())
    }

    /// Loads an index from the bytes of `to_bytes`, on a device or on the best.
    #[staticmethod]
    #[pyo3(signature = (data, device=None))]
    fn from_bytes(
        py: Python<'_>,
        data: Given<Bound<'_, PyBytes>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let data = data.take("data", "bytes")?;
        let device = device::chosen(py, device)?;
        let bytes = data.as_bytes();
        Ok(call::run(py, |_| nearfield::MultiVector::loader(&device).load_bytes(bytes))?.into())
    }

    /// The ids of all documents, int64, ascending.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        answers::id_array(py, self.index.all_ids(py)?.into_iter())
    }

    /// How many tokens all documents have.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<u64> {
        self.index.told(py, nearfield::MultiVector::tokens)
    }

    /// How many lists of tokens there are: none before `build_lists`.
    #[getter]
    fn lists(&self, py: Python<'_>) -> PyResult<usize> {
        self.index.told(py, nearfield::MultiVector::lists)
    }

    /// Elements of a token.
    #[getter]
    fn dim(&self) -> usize {
        self.dim
    }

    /// How tokens are stored: float32, float16, int8 or uint8; or the word "bfloat16", for which numpy has no type of its own.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtype_of(py, self.elements)
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
        self.index.told(py, nearfield::MultiVector::len)
    }

    fn __contains__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.index.contains(py, id)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (documents, tokens, bytes) =
            self.index.told(py, |index| (index.len(), index.tokens(), index.memory().total()))?;
        let (dim, dtype) = (self.dim, self.elements.numpy_name());
        let size = bytes as f64 / f64::from(1 << 20);
        let device = &self.device.adapter().name;
        Ok(format!(
            "<nearfield.MultiVector: {documents} documents of {tokens} tokens x {dim} {dtype}, {size:.1} MiB, on {device}>"
        ))
    }

    /// Pickles the bytes of `to_bytes`. An index on the processor comes back there, another one on the best device. Copies are made of
    /// them too.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        if !slf.is_exact_instance_of::<Self>() {
            return Err(not_pickled(slf, "MultiVector"));
        }
        let device = (this.device.adapter().kind == AdapterKind::Host).then_some("host");
        let arguments = (this.to_bytes(py)?, device);
        (python::unpickled_documents(py)?, arguments).into_pyobject(py)
    }
}

/// The MaxSim of every query and every document, float32 `[queries, documents]`: the sum, over the tokens of a query, of the largest inner
/// product with a token of the document. Larger is nearer.
///
/// Both are given as in `MultiVector`. Documents that are searched again belong in one, which also finds the best of them faster than it
/// computes all scores.
#[pyfunction]
#[pyo3(signature = (queries, documents, *, queries_mask=None, queries_offsets=None, documents_mask=None, documents_offsets=None, device=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn maxsim<'py>(
    py: Python<'py>,
    queries: &Bound<'py, PyAny>,
    documents: &Bound<'py, PyAny>,
    queries_mask: Option<&Bound<'py, PyAny>>,
    queries_offsets: Option<&Bound<'py, PyAny>>,
    documents_mask: Option<&Bound<'py, PyAny>>,
    documents_offsets: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let _running = call::check(py)?;
    let layout = Layout { prefix: "documents_", mask: documents_mask, offsets: documents_offsets };
    let documents = Tokens::of(documents, "documents", layout, None)?;
    let documents = documents.view(py)?;
    let layout = Layout { prefix: "queries_", mask: queries_mask, offsets: queries_offsets };
    let queries = Tokens::of(queries, "queries", layout, Some(documents.vectors().dim()))?;
    let queries = queries.view(py)?;
    let device = device::chosen(py, device)?;
    let shape = [queries.len(), documents.len()];
    if shape.contains(&0) {
        return answers::zeros(py, shape);
    }
    let scores = call::run(py, |_| device.maxsim(&queries, &documents))?;
    answers::matrix(py, scores, shape[1])
}
