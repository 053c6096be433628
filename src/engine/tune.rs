//! Times the two forms of kernels that may have the lengths of vectors as constants, and keeps the faster ones.
//!
//! Constants let a driver unroll loops and compute addresses beforehand. Some drivers unroll too far: on an H200 a cooperative tile is
//! 5 % faster with them at 128 dimensions and 6 % slower at 384 (docs/lessons.md). So searches of the index itself are timed, kernel by kernel.

use std::collections::HashMap;
use std::time::Duration;

use crate::engine::device::vectors::Queries;
use crate::engine::lists::ahead;
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::ListTables;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::apart::ApartRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::ahead::Searched;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::apart;
use crate::engine::search::pipeline;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{FormChoice, FormTimes, Kernel, Variant, Wanted};
use crate::kernels::DIMENSIONS;
use crate::matrix::MatrixView;
use crate::metric::Metric;
use crate::platform::{HAS_NATIVE_FEATURES, Instant};

/// Numbers of queries whose searches run different kernels.
const QUERIES: [usize; 5] = [1, 2, 8, 100, 1024];

/// Neighbours of each query.
const NEIGHBORS: usize = 10;

/// The most time that searches take, compiling aside.
const MOST_TIME: Duration = Duration::from_millis(200);

/// Timed searches of each number of queries with each form. The fastest counts, because nothing makes a kernel faster by chance.
const TURNS: usize = 5;

/// Fewer elements are read in less time than a kernel takes to start.
const FEWEST_ELEMENTS: u64 = 1 << 22;

/// A kernel whose two forms were timed: with the lengths of vectors from its parameters, and compiled for one number of elements.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TunedKernel {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its variant: element type, subgroups, and values of its other constants.
    pub variant: String,
    /// Elements of a vector.
    pub dim: usize,
    /// Queries of the searches that were timed.
    pub queries: usize,
    /// Device time of the general form in a search.
    pub general: Duration,
    /// Device time of the form for this number of elements.
    pub specialised: Duration,
    /// Whether searches use that from now on.
    pub is_specialised: bool,
}

/// A search for the nearest rows of as many queries as it is told, with these forms and a profile.
type Trial<'a> = &'a (dyn Fn(usize, FormChoice) -> Boxed<'a, SearchResult> + Send + Sync + 'a);

/// Whether there is something to tune in a search of these rows: timestamps, a usual number of elements, and enough rows.
pub(crate) fn is_worthwhile(rows: &GpuRows) -> bool {
    let elements = rows.len() * rows.dim as u64;
    HAS_NATIVE_FEATURES
        && rows.gpu.adapter.capabilities.timestamps
        && DIMENSIONS.contains(&(rows.dim as u32))
        && elements >= FEWEST_ELEMENTS
}

/// Times the kernels of exact search. `is_again` times also those whose times are known.
pub(crate) fn tune_rows(rows: &GpuRows, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
    Box::pin(async move {
        let values = queries(rows).await?;
        let all = MatrixView::new(&values, rows.dim)?;
        let trial = |count, forms| -> Boxed<'_, SearchResult> {
            Box::pin(async move {
                let queries = Queries::from(all.slice(0..count));
                pipeline::search(rows, &queries, &request(rows, metric, forms)).await
            })
        };
        tune(rows, &Searched::of(rows, metric).kernels(), &trial, is_again).await
    })
}

#[cfg(not(target_arch = "wasm32"))]
/// Times the kernels that screen rows of the host.
pub(crate) fn tune_apart(rows: &ApartRows, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
    Box::pin(async move {
        let Some(integers) = &rows.integers else { return Ok(vec![]) };
        rows.rows.check_file()?;
        let values = rows.rows.fetch(&sample(rows.rows.end() as u64))?;
        let all = MatrixView::new(&values, integers.dim)?;
        let trial = |count, forms| -> Boxed<'_, SearchResult> {
            Box::pin(async move {
                let queries = Queries::from(all.slice(0..count));
                apart::search(rows, &queries, &request(integers, metric, forms)).await
            })
        };
        tune(integers, &Searched::of(integers, metric).kernels(), &trial, is_again).await
    })
}

/// Times the kernels of searches in lists.
pub(crate) fn tune_lists<'f>(
    rows: &'f GpuRows,
    (centroids, tables): (&'f Centroids, &'f ListTables),
    metric: Metric,
    is_again: bool,
) -> Boxed<'f, Vec<TunedKernel>> {
    Box::pin(async move {
        let values = queries(rows).await?;
        let all = MatrixView::new(&values, rows.dim)?;
        // As many as an index probes that is not told otherwise.
        let probes = (centroids.lists / 64).max(1);
        let trial = |count, forms| -> Boxed<'_, SearchResult> {
            Box::pin(async move {
                let queries = Queries::from(all.slice(0..count));
                let request = request(rows, metric, forms);
                let probing = Probing {
                    rows,
                    centroids,
                    tables,
                    request: &request,
                    #[cfg(not(target_arch = "wasm32"))]
                    asked: None,
                    probes,
                };
                probing.search(&queries).await
            })
        };
        tune(rows, &ahead::probing(Searched::of(rows, metric)), &trial, is_again).await
    })
}

/// Queries for trials: rows of the index, which have near neighbours as queries do, `[queries, dim]`.
async fn queries(rows: &GpuRows) -> Result<Vec<f32>> {
    rows.fetch(&sample(rows.end())).await
}

/// Slots below `end`, as many as the largest trial has queries.
fn sample(end: u64) -> Vec<u32> {
    let most = QUERIES[QUERIES.len() - 1] as u64;
    (0..most).map(|number| (number * end / most) as u32).collect()
}

fn request(rows: &GpuRows, metric: Metric, forms: FormChoice) -> SearchRequest<'static> {
    let budget = rows.gpu.options.budget_bytes;
    SearchRequest {
        metric,
        k: NEIGHBORS,
        budget,
        allowed: None,
        widens: false,
        profile: true,
        forms,
        progress: None,
    }
}

/// Times both forms of the kernels that trials run.
async fn tune(
    rows: &GpuRows,
    wanted: &[Wanted],
    trial: Trial<'_>,
    is_again: bool,
) -> Result<Vec<TunedKernel>> {
    let (gpu, dim) = (&*rows.gpu, rows.dim);
    gpu.compile_forms(dim, wanted).await?;
    let specialised = FormChoice::Specialised(dim as u32);
    let started = Instant::now();
    let mut timed: Vec<Timed> = vec![];
    for queries in QUERIES {
        // The first searches also tell which kernels run, and whether their answers are the same bits.
        let general = trial(queries, FormChoice::General).await?;
        gpu.compiler.tried();
        let other = trial(queries, specialised).await?;
        let tried = gpu.compiler.tried();
        let is_known = tried.iter().all(|(kernel, variant)| gpu.compiler.times(kernel, variant).is_some());
        if general.neighbors == other.neighbors && (is_again || !is_known) {
            let least = least_times(trial, queries, specialised, started).await?;
            for (kernel, variant) in tried {
                let [general, specialised] = least.each_ref().map(|times| times.get(kernel.name()));
                let (Some(general), Some(specialised)) = (general, specialised) else { continue };
                let times =
                    FormTimes { general: general.as_secs_f64(), specialised: specialised.as_secs_f64() };
                let one = Timed { kernel, variant, queries, times };
                // A kernel that several of the searches run is timed where it takes longest.
                match timed.iter_mut().find(|other| other.is_of(&one)) {
                    Some(other) if other.times.general < one.times.general => *other = one,
                    Some(_) => {}
                    None => timed.push(one),
                }
            }
        }
        if started.elapsed() > MOST_TIME {
            break;
        }
    }
    let kept: Vec<_> = timed.iter().map(|one| (one.kernel, one.variant.clone(), one.times)).collect();
    gpu.compiler.keep_times(&kept)?;
    Ok(timed.into_iter().map(|one| one.told(dim)).collect())
}

/// The least device time of each kernel in searches with the general forms and with the others.
async fn least_times(
    trial: Trial<'_>,
    queries: usize,
    specialised: FormChoice,
    started: Instant,
) -> Result<[HashMap<&'static str, Duration>; 2]> {
    let mut least: [HashMap<&str, Duration>; 2] = Default::default();
    for turn in 0..TURNS {
        if turn > 0 && started.elapsed() > MOST_TIME {
            break;
        }
        for (forms, least) in [FormChoice::General, specialised].into_iter().zip(&mut least) {
            for stage in trial(queries, forms).await?.statistics.stages {
                let time = least.entry(stage.stage).or_insert(stage.time);
                *time = stage.time.min(*time);
            }
        }
    }
    Ok(least)
}

/// A form for one number of elements, and its times in searches of some queries.
struct Timed {
    kernel: &'static Kernel,
    variant: Variant,
    queries: usize,
    times: FormTimes,
}

impl Timed {
    fn is_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.kernel, other.kernel) && self.variant == other.variant
    }

    fn told(self, dim: usize) -> TunedKernel {
        let Self { kernel, variant, queries, times } = self;
        TunedKernel {
            kernel: kernel.name(),
            variant: Variant { dimension: 0, ..variant }.to_string(),
            dim,
            queries,
            general: Duration::from_secs_f64(times.general),
            specialised: Duration::from_secs_f64(times.specialised),
            is_specialised: times.specialises(),
        }
    }
}
