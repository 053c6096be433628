//! `nf.KMeans`.

use std::sync::Arc;

use nearfield::{Clusters, Metric};
use numpy::{PyArray1, PyArray2};
use parking_lot::RwLock;
use pyo3::prelude::*;

use crate::call::{self, Kept, Progress};
use crate::given::Given;
use crate::kinds::named;
use crate::vectors::Vectors;
use crate::{answers, device, python};

/// k-means clustering. For "cosine" and "ip" it is spherical: only the direction of a row counts.
///
/// `fit` trains on up to `rows_per_cluster` rows a cluster, a seeded sample where there are more, and then labels every row. Training ends
/// after `iterations`, or when one lowers the inertia by less than the fraction `tolerance`. `balance` splits clusters with more than this
/// many times the average number of rows. On one device the same seed gives the same centroids, bit for bit.
#[pyclass(frozen, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct KMeans {
    metric: Metric,
    clusters: usize,
    iterations: usize,
    tolerance: f64,
    rows_per_cluster: usize,
    balance: Option<f64>,
    seed: u64,
    device: Kept<nearfield::Device>,
    trained: RwLock<Option<Arc<Clusters>>>,
}

impl KMeans {
    /// What training has found.
    fn of_trained<T>(&self, py: Python<'_>, of: impl FnOnce(&Arc<Clusters>) -> T) -> PyResult<T> {
        // The lock is not held while Python objects are made: another thread may wait for it with the interpreter's.
        let trained = self.trained.read().clone();
        trained.as_ref().map(of).ok_or_else(|| {
            python::exception(python::error(py), "KMeans: needed fit(rows) before, given none".to_owned())
        })
    }
}

#[pymethods]
impl KMeans {
    #[new]
    #[pyo3(signature = (clusters, *, metric=Given::from("l2sq"), iterations=Given::from(10), tolerance=Given::from(1e-4), rows_per_cluster=Given::from(64), balance=None, seed=Given::from(0), device=None), text_signature = "(clusters, *, metric='l2sq', iterations=10, tolerance=0.0001, rows_per_cluster=64, balance=None, seed=0, device=None)")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        clusters: Given<i64>,
        metric: Given<&str>,
        iterations: Given<i64>,
        tolerance: Given<f64>,
        rows_per_cluster: Given<i64>,
        balance: Option<Given<f64>>,
        seed: Given<i64>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (metric, device) = (named(py, metric.word("metric")?)?, Kept::new(device::chosen(py, device)?));
        let trained = RwLock::new(None);
        let (clusters, iterations) = (clusters.count("clusters")?, iterations.count("iterations")?);
        let tolerance = tolerance.take("tolerance", "a number")?;
        let rows_per_cluster = rows_per_cluster.count("rows_per_cluster")?;
        let balance = balance.map(|balance| balance.take("balance", "a number of at least 1")).transpose()?;
        let seed = seed.count("seed")? as u64;
        Ok(Self { metric, clusters, iterations, tolerance, rows_per_cluster, balance, seed, device, trained })
    }

    /// Trains centroids and labels the rows, `[n, dim]`. Returns itself.
    #[pyo3(signature = (rows, *, progress=None))]
    fn fit<'py>(
        slf: Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, settings) = (slf.py(), slf.get());
        let _running = call::check(py)?;
        let rows = Vectors::of(rows, "rows", None)?;
        let rows = rows.view(py)?;
        let shown = Progress::start(py, progress, "training", settings.iterations)?;
        let trained = call::run(py, |ending| {
            let report = shown.iterations(ending);
            let means = nearfield::KMeans::new(settings.metric, settings.clusters)
                .iterations(settings.iterations)
                .tolerance(settings.tolerance)
                .rows_per_cluster(settings.rows_per_cluster)
                .seed(settings.seed)
                .progress(&report);
            match settings.balance {
                Some(ratio) => means.balance(ratio),
                None => means,
            }
            .train(&settings.device, rows)
        });
        let trained = shown.close(py, trained)?;
        *settings.trained.write() = Some(Arc::new(trained));
        Ok(slf)
    }

    /// The number of the nearest centroid of each row, int64 `[n]`, ties to the smaller number.
    fn predict<'py>(&self, py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let _running = call::check(py)?;
        // No lock is held while the device works.
        let clusters = self.of_trained(py, Arc::clone)?;
        let rows = Vectors::of(rows, "rows", Some(clusters.dim))?;
        let rows = rows.view(py)?;
        let labels = call::run(py, |_| clusters.predict(&self.device, rows))?;
        answers::id_array(py, labels.into_iter().map(u64::from))
    }

    /// The centroids, float32 `[clusters, dim]`.
    #[getter]
    fn centroids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (values, dim) = self.of_trained(py, |trained| (trained.centroids.clone(), trained.dim))?;
        answers::matrix(py, values, dim)
    }

    /// The number of the nearest centroid of every row of `fit`, int64 `[n]`.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        self.of_trained(py, |trained| {
            answers::id_array(py, trained.assignments.iter().map(|&number| number.into()))
        })?
    }

    /// The sum of the distances of all rows to their nearest centroid.
    #[getter]
    fn inertia(&self, py: Python<'_>) -> PyResult<f64> {
        self.of_trained(py, |trained| trained.inertia)
    }

    /// The sum of the training rows' distances to their nearest centroid before each iteration.
    #[getter]
    fn history(&self, py: Python<'_>) -> PyResult<Vec<f64>> {
        self.of_trained(py, |trained| trained.history.clone())
    }

    /// The numbers of the training rows, int64, ascending.
    #[getter]
    fn trained_on<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        self.of_trained(py, |trained| answers::id_array(py, trained.trained_on.iter().copied()))?
    }

    fn __repr__(&self) -> String {
        let state = if self.trained.read().is_some() { "trained" } else { "not trained" };
        format!("<nearfield.KMeans: {} clusters, {}, {state}>", self.clusters, self.metric)
    }
}
