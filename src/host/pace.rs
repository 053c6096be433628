//! How fast this processor searches: measured once, to tell beforehand what a search will take.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use super::Host;
use super::rows::HostRows;
use super::search::{Asked, Wanted};
use crate::gpu::DeviceOptions;
use crate::matrix::{ElementKind, MatrixView};
use crate::metric::Metric;

/// Seconds of a search.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// An element of a row that is read.
    read: f64,
    /// An element of a row and one of a query.
    pair: f64,
}

/// Rows that it is measured on: as large as the second level of caches together, so that they are not quicker than those of an index.
const ROWS: usize = 4096;
const DIM: usize = 512;

/// Queries that are as many as fill a thread's registers several times over.
const MANY: usize = 48;

impl Pace {
    /// By threads of its own. One of the caller's pool, while it waited for others, would take on what else there is: it would be timed, and
    /// could be a search that waits for this very measurement.
    fn measure_apart(is_narrowed: bool) -> Option<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build().ok()?;
        let (send, receive) = mpsc::channel();
        pool.spawn(move || {
            let _ = send.send(Self::measure(is_narrowed));
        });
        receive.recv().ok()?
    }

    fn measure(is_narrowed: bool) -> Option<Self> {
        let values: Vec<f32> = (0..ROWS * DIM).map(|i| (i as f32 * 0.7391).fract() - 0.5).collect();
        let view = MatrixView::new(&values, DIM).ok()?;
        let host = Arc::new(Host::new(DeviceOptions::default()));
        let mut rows = HostRows::new(host, Metric::L2Squared, ElementKind::F32, DIM, is_narrowed);
        let slots: Vec<u32> = (0..ROWS as u32).collect();
        let ids: Vec<u64> = (0..ROWS as u64).collect();
        rows.put(view, (&slots, &ids, &[]), |_| ()).ok()?;
        let asked = Asked { wanted: Wanted::Nearest(10), budget: u64::MAX, allowed: None, progress: None };
        let time = |queries: usize| {
            let once = || {
                let started = Instant::now();
                rows.search(view.slice(0..queries), &asked).ok()?;
                Some(started.elapsed().as_secs_f64())
            };
            (0..5).filter_map(|_| once()).reduce(f64::min)
        };
        let elements = (ROWS * DIM) as f64;
        Some(Self { read: time(1)? / elements, pair: time(MANY)? / elements / MANY as f64 })
    }
}

/// About how long so many queries of so many rows will take. None where it cannot be told.
pub(crate) fn expected(queries: usize, rows: usize, dim: usize, is_narrowed: bool) -> Option<Duration> {
    static PACES: [OnceLock<Option<Pace>>; 2] = [OnceLock::new(), OnceLock::new()];
    let pace = (*PACES[usize::from(is_narrowed)].get_or_init(|| Pace::measure_apart(is_narrowed)))?;
    let elements = rows as f64 * dim as f64;
    Some(Duration::from_secs_f64(elements * pace.read.max(pace.pair * queries as f64)))
}
