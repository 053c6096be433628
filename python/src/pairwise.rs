//! Every row of an index against every other: what the functions of `nearfield/_pairwise.py` call.

use nearfield::{DuplicateOptions, Keep, Result, SearchOptions, Symmetry};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::answers::{self, Out};
use crate::call::{self, Progress};
use crate::given::{Given, refused};
use crate::ids::{Ids, RowFilter};
use crate::index::{Index, f32_above};
use crate::python;

/// Runs `work` on the index with options that have the filter and the progress.
fn compared<'py, T: Send>(
    index: &Index,
    py: Python<'py>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    work: impl FnOnce(&nearfield::Index, SearchOptions<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let filter = index.filter(py, filter)?;
    let rows = index.count(py)?;
    let rows = filter.as_ref().map_or(rows, |filter| filter.count().min(rows));
    let shown = Progress::start(py, progress, "comparing", rows)?;
    let done = index.read(py, |index, ending| {
        let report = shown.reporter(ending);
        let mut options = SearchOptions::new(1);
        options.progress = report.as_ref().map(|report| report as _);
        options.filter = filter.as_ref().map(RowFilter::as_filter);
        work(index, options)
    });
    shown.close(py, done)
}

/// The k nearest other rows of every row: `Neighbors`, or with a symmetry `Csr`.
#[pyfunction(name = "_knn_graph")]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn knn_graph<'py>(
    py: Python<'py>,
    index: &Index,
    k: Given<i64>,
    symmetry: Option<Given<&str>>,
    probes: Option<Given<i64>>,
    recall: Option<Given<f64>>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let (k, probes) = (k.count("k")?, probes.map(|probes| probes.count("probes")).transpose()?);
    let recall = recall.map(|recall| recall.take("recall", "a number from 0 to 1")).transpose()?;
    let symmetry = match symmetry.map(|word| word.word("symmetry")).transpose()? {
        None => None,
        Some("directed") => Some(Symmetry::Directed),
        Some("union") => Some(Symmetry::Union),
        Some("intersection") => Some(Symmetry::Intersection),
        Some(other) => return Err(refused("symmetry", "directed, union or intersection", other)),
    };
    let (graph, csr) = compared(index, py, filter, progress, |index, options| {
        let mut options = options.iterative_scan(true);
        (options.k, options.probes, options.recall) = (k, probes, recall);
        let graph = index.knn_graph_with(&options)?;
        let csr = symmetry.map(|symmetry| graph.to_csr(symmetry)).transpose()?;
        Ok((graph, csr))
    })?;
    let Some(csr) = csr else {
        let shape = [graph.ids().len(), answers::width(graph.neighbors())?];
        return Out::of_shape(py, None, shape)?.filled(graph.neighbors());
    };
    let arrays = (
        PyArray1::from_vec(py, csr.data),
        answers::array(py, csr.indices.iter().map(|&column| i64::from(column)))?,
        answers::array(py, csr.indptr.iter().map(|&start| start as i64))?,
    );
    python::csr(py)?.call1(arrays)
}

/// All pairs of rows nearer than a radius: `Pairs`, or how many.
#[pyfunction(name = "_pairs_within")]
pub(crate) fn pairs_within<'py>(
    py: Python<'py>,
    index: &Index,
    radius: Given<f64>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    count_only: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let radius = f32_above(radius.take("radius", "a number")?);
    let (count, (a, b, distances)) = compared(index, py, filter, progress, |index, options| {
        let mut options = options.radius(radius);
        options.k = usize::MAX;
        let (mut count, mut all) = (0u64, (vec![], vec![], vec![]));
        index.visit_pairs(&options, &mut |pairs| {
            count += pairs.len() as u64;
            if !count_only {
                answers::append(&mut all.0, pairs.iter().map(|pair| pair.a as i64))?;
                answers::append(&mut all.1, pairs.iter().map(|pair| pair.b as i64))?;
                answers::append(&mut all.2, pairs.iter().map(|pair| pair.distance))?;
            }
            Ok(())
        })?;
        Ok((count, all))
    })?;
    if count_only {
        return Ok(count.into_pyobject(py)?.into_any());
    }
    let arrays = (PyArray1::from_vec(py, a), PyArray1::from_vec(py, b), PyArray1::from_vec(py, distances));
    python::pairs(py)?.call1(arrays)
}

/// Rows that lie near each other: `Duplicates`.
#[pyfunction(name = "_duplicates")]
pub(crate) fn duplicates<'py>(
    py: Python<'py>,
    index: &Index,
    threshold: Given<f64>,
    order: Option<&Bound<'py, PyAny>>,
    keep: Given<&str>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let threshold = f32_above(threshold.take("threshold", "a number")?);
    let keep = match keep.word("keep")? {
        "earliest" => Keep::Earliest,
        "group" => Keep::OneOfGroup,
        other => return Err(refused("keep", "earliest or group", other)),
    };
    let order = order.map(|order| Ids::of_argument(order, "order")).transpose()?;
    let order = order.as_ref().map(Ids::view).transpose()?;
    let found = compared(index, py, filter, progress, |index, given| {
        let mut options = DuplicateOptions::new(threshold).keep(keep);
        (options.order, options.filter, options.progress) = (order.as_deref(), given.filter, given.progress);
        index.duplicates(&options)
    })?;
    let groups = found.groups.iter().map(|group| answers::id_array(py, group.iter().copied()));
    let groups = groups.collect::<PyResult<Vec<_>>>()?;
    python::duplicates(py)?.call1((
        PyTuple::new(py, groups)?,
        answers::id_array(py, found.kept.iter().copied())?,
        answers::id_array(py, found.removed.iter().map(|one| one.id))?,
        answers::id_array(py, found.removed.iter().map(|one| one.near))?,
        answers::array(py, found.removed.iter().map(|one| one.distance))?,
    ))
}

/// The minimum spanning tree of mutual reachability: `SpanningTree`.
#[pyfunction(name = "_spanning_tree")]
pub(crate) fn spanning_tree<'py>(
    py: Python<'py>,
    index: &Index,
    k: Given<i64>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let k = k.count("k")?;
    let (tree, merges) = compared(index, py, filter, progress, |index, mut options| {
        options.k = k;
        let tree = index.spanning_tree_with(&options)?;
        let merges = tree.merges()?;
        Ok((tree, merges))
    })?;
    let linkage = answers::zeros::<f64>(py, [merges.len(), 4])?;
    for (row, merge) in linkage.readwrite().as_slice_mut()?.chunks_exact_mut(4).zip(&merges) {
        let [a, b] = merge.clusters.map(f64::from);
        row.copy_from_slice(&[a, b, f64::from(merge.distance), f64::from(merge.rows)]);
    }
    let edges = tree.edges();
    python::spanning_tree(py)?.call1((
        answers::id_array(py, edges.iter().map(|edge| edge.a))?,
        answers::id_array(py, edges.iter().map(|edge| edge.b))?,
        answers::array(py, edges.iter().map(|edge| edge.distance))?,
        linkage,
    ))
}

/// Clusters by density: `DensityClusters`.
#[pyfunction(name = "_dbscan")]
pub(crate) fn dbscan<'py>(
    py: Python<'py>,
    index: &Index,
    radius: Given<f64>,
    min_samples: Given<i64>,
    filter: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let (radius, min_samples) =
        (f32_above(radius.take("radius", "a number")?), min_samples.count("min_samples")?);
    let found = compared(index, py, filter, progress, |index, options| {
        let mut options = options.radius(radius);
        options.k = usize::MAX;
        index.dbscan(&options, min_samples)
    })?;
    let labels = found.labels.iter().map(|label| label.map_or(-1, i64::from));
    python::density_clusters(py)?.call1((answers::array(py, labels)?, PyArray1::from_vec(py, found.is_core)))
}
