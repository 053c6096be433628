//! Times the forms of kernels, with the lengths of vectors as constants or not and for few registers or many, and keeps the faster ones.
//!
//! Constants let a driver unroll loops and compute addresses beforehand. Some drivers unroll too far: on an H200 a cooperative tile is
//! 5 % faster with them at 128 dimensions and 6 % slower at 384 (docs/lessons.md). So searches of the index itself are timed, kernel by kernel.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use crate::elements::MatrixView;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::ahead;
use crate::engine::lists::probing::Probing;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::screens::list::Codes;
use crate::engine::search::ahead::Searched;
use crate::engine::search::nearest;
use crate::engine::search::request::{SearchRequest, SearchResult};
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::{rows::hybrid::HybridRows, search::hybrid};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{FormChoice, FormTimes, Kernel, Variant, Wanted};
use crate::kernels::DIMENSIONS;
use crate::metric::Metric;
use crate::platform::{HAS_NATIVE_FEATURES, Instant};

/// Numbers of queries whose searches run different kernels.
const QUERIES: [usize; 5] = [1, 2, 8, 100, 1024];

/// Queries of the batch that is timed in tiles of bytes and of floats.
const BATCH: usize = 512;

/// Fewer rows tell little of a batch: many of them are a sample, which is scanned.
const BATCH_ROWS: u64 = 1 << 15;

/// Neighbours of each query.
const NEIGHBORS: usize = 10;

/// The most time that searches take, compiling aside.
const MOST_TIME: Duration = Duration::from_millis(200);

/// Timed searches of each number of queries with each form. The fastest counts, because nothing makes a kernel faster by chance.
const TURNS: usize = 5;

/// Fewer elements are read in less time than a kernel takes to start.
const FEWEST_ELEMENTS: u64 = 1 << 22;

/// A kernel of which two forms were timed: the general one, and one compiled for one number of elements or another number of registers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TunedKernel {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its variant: element type, subgroups, and values of its other constants.
    pub variant: String,
    /// The other form, such as `for 768` (elements of a vector) or `64 registers`.
    pub form: String,
    /// Elements of a vector.
    pub dim: usize,
    /// Queries of the searches that were timed.
    pub queries: usize,
    /// Device time of the general form in a search.
    pub general: Duration,
    /// Device time of the other form.
    pub specialised: Duration,
    /// Whether searches use that from now on.
    pub is_specialised: bool,
}

/// What trials search.
pub(crate) enum Tried<'a> {
    /// Rows, or their lists where they have such.
    Rows(&'a GpuRows),
    /// Rows of the host, and their quantised copy.
    #[cfg(not(target_arch = "wasm32"))]
    Hybrid(&'a HybridRows, &'a GpuRows),
}

impl Tried<'_> {
    fn on_gpu(&self) -> &GpuRows {
        match self {
            Self::Rows(rows) => rows,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(_, integers) => integers,
        }
    }

    /// Queries for trials, `[queries, dim]`: rows of the index, which have near neighbours as queries do.
    async fn queries(&self) -> Result<Vec<f32>> {
        let (most, end) = (QUERIES[QUERIES.len() - 1] as u64, self.on_gpu().end());
        let slots: Vec<u32> = (0..most).map(|number| (number * end / most) as u32).collect();
        match self {
            Self::Rows(rows) => rows.fetch(&slots).await,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(hybrid, _) => hybrid.rows.fetch(&slots),
        }
    }

    /// Searches for the nearest rows of some queries, with these forms and a profile.
    fn search<'f>(
        &'f self,
        queries: Vectors<'f>,
        metric: Metric,
        forms: FormChoice,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            let budget = self.on_gpu().gpu.options.budget_bytes;
            let integral = self.on_gpu().layout.elements.is_integer();
            let request = SearchRequest { integral, ..SearchRequest::nearest(metric, NEIGHBORS, budget) };
            let lists = self.on_gpu().lists.as_ref();
            // As many as an index probes that is not told otherwise.
            let probes = lists.map(|lists| (lists.centroids.lists / 64).max(1));
            let request = &SearchRequest { probes, profile: true, forms, ..request };
            match *self {
                Self::Rows(rows) => match Probing::of(rows, request) {
                    Some(probing) => probing.search(&queries).await,
                    None => nearest::search(rows, &queries, request).await,
                },
                #[cfg(not(target_arch = "wasm32"))]
                Self::Hybrid(rows, _) => hybrid::search(rows, &queries, request).await,
            }
        })
    }
}

/// Whether there is something to tune in a search of these rows: timestamps, a usual number of elements, and enough rows.
fn is_worthwhile(rows: &GpuRows) -> bool {
    let elements = rows.len() * rows.dim as u64;
    HAS_NATIVE_FEATURES
        && rows.gpu.adapter.capabilities.timestamps
        && DIMENSIONS.contains(&(rows.dim as u32))
        && elements >= FEWEST_ELEMENTS
}

/// Times both forms of the kernels that these searches run; none where that is not worth while. `is_again` times also those whose times are
/// known.
pub(crate) fn tune(tried: Tried<'_>, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
    if !is_worthwhile(tried.on_gpu()) {
        return Box::pin(ready(Ok(vec![])));
    }
    Box::pin(async move {
        let values = tried.queries().await?;
        let all = MatrixView::new(&values, tried.on_gpu().dim)?;
        let trial = |count, forms| tried.search(all.slice(0..count).into(), metric, forms);
        let searched = Searched::of(tried.on_gpu(), metric);
        let rows = tried.on_gpu();
        let has_lists = rows.lists.is_some();
        let wanted = if has_lists { ahead::probing(searched) } else { searched.kernels() };
        let has_tiles = !has_lists && rows.keeps_rows && searched.codes == Codes::Int8(Tiles::Bytes);
        timed(rows, &wanted, &trial, (is_again, has_tiles)).await
    })
}

/// A search for the nearest rows of as many queries as it is told, with these forms and a profile.
type Trial<'a> = &'a (dyn Fn(usize, FormChoice) -> Boxed<'a, SearchResult> + Send + Sync + 'a);

async fn timed(
    rows: &GpuRows,
    wanted: &[Wanted],
    trial: Trial<'_>,
    (is_again, has_tiles): (bool, bool),
) -> Result<Vec<TunedKernel>> {
    let (gpu, dim) = (&*rows.gpu, rows.dim);
    // Asked for, both numbers of registers are tried, and else only where the adapter's is not known from measurements.
    let registers = gpu.adapter.other_registers().filter(|_| is_again || !gpu.adapter.is_measured());
    gpu.compile_forms(dim, registers, wanted).await?;
    let choices = [Some(FormChoice::Specialised(dim as u32)), registers.map(FormChoice::Registers)];
    let started = Instant::now();
    let mut timed: Vec<Timed> = vec![];
    for queries in QUERIES {
        // The first searches also tell which kernels run, and whether their answers are the same bits.
        let general = trial(queries, FormChoice::General).await?;
        for choice in choices.into_iter().flatten() {
            gpu.compiler.tried();
            let other = trial(queries, choice).await?;
            let tried = gpu.compiler.tried();
            let is_known =
                tried.iter().all(|(kernel, variant)| gpu.compiler.times(kernel, variant).is_some());
            if general.neighbors != other.neighbors || is_known && !is_again {
                continue;
            }
            let least = least_times(trial, queries, choice, started).await?;
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
    // With the forms that are in use from now on.
    let has_times = gpu.compiler.batch_times(dim, rows.layout.elements).is_some();
    if has_tiles && rows.len() >= BATCH_ROWS && (is_again || !has_times) {
        time_batches(rows, trial, started).await?;
    }
    Ok(timed.into_iter().map(|one| one.told(dim)).collect())
}

/// Times a batch in tiles of bytes and in tiles of floats, and keeps that. Where four byte products are no instruction, floats are faster.
async fn time_batches(rows: &GpuRows, trial: Trial<'_>, started: Instant) -> Result<()> {
    let compiler = &rows.gpu.compiler;
    let mut least = [Duration::MAX; 2];
    for turn in 0..TURNS {
        if turn > 0 && started.elapsed() > 2 * MOST_TIME {
            break;
        }
        for (takes_floats, least) in [false, true].into_iter().zip(&mut least) {
            let tried = takes_floats.then(|| compiler.try_floats());
            let found = trial(BATCH, FormChoice::Tuned).await?;
            drop(tried);
            *least = found.statistics.stages.iter().map(|stage| stage.time).sum::<Duration>().min(*least);
        }
    }
    let [general, specialised] = least.map(|time| time.as_secs_f64());
    compiler.keep_batch_times(rows.dim, rows.layout.elements, FormTimes { general, specialised });
    Ok(())
}

/// The least device time of each kernel in searches with the general forms and with the others.
async fn least_times(
    trial: Trial<'_>,
    queries: usize,
    other: FormChoice,
    started: Instant,
) -> Result<[HashMap<&'static str, Duration>; 2]> {
    let mut least: [HashMap<&str, Duration>; 2] = Default::default();
    for turn in 0..TURNS {
        if turn > 0 && started.elapsed() > MOST_TIME {
            break;
        }
        for (forms, least) in [FormChoice::General, other].into_iter().zip(&mut least) {
            for stage in trial(queries, forms).await?.statistics.stages {
                let time = least.entry(stage.stage).or_insert(stage.time);
                *time = stage.time.min(*time);
            }
        }
    }
    Ok(least)
}

/// Another form than the general one, and its times in searches of some queries.
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
        let form = match variant.dimension {
            0 => format!("{} registers", variant.registers),
            dimension => format!("for {dimension}"),
        };
        TunedKernel {
            kernel: kernel.name(),
            variant: Variant { dimension: 0, registers: 0, ..variant }.to_string(),
            form,
            dim,
            queries,
            general: Duration::from_secs_f64(times.general),
            specialised: Duration::from_secs_f64(times.specialised),
            is_specialised: times.specialises(),
        }
    }
}
