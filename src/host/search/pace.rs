//! How fast this processor searches: measured once, to tell beforehand what a search will take.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use crate::device_options::DeviceOptions;
use crate::host::Host;
use crate::host::lists::probing::HostLists;
use crate::host::rows::store::HostRows;
use crate::host::search::pipeline::{Asked, Wanted};
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

/// Queries, the rows that each looks at, and how many queries look at a row that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) queries: f64,
    pub(crate) rows: f64,
    pub(crate) shared: f64,
    pub(crate) dim: usize,
}

/// About how long work takes. None where it cannot be told.
pub(crate) fn expected(work: Work, is_narrowed: bool) -> Option<Duration> {
    static PACES: [OnceLock<Option<Pace>>; 2] = [OnceLock::new(), OnceLock::new()];
    let pace = (*PACES[usize::from(is_narrowed)].get_or_init(|| Pace::measure_apart(is_narrowed)))?;
    Duration::try_from_secs_f64(pace.seconds(work)).ok()
}

impl Pace {
    fn seconds(self, work: Work) -> f64 {
        let Work { queries, rows, shared, dim } = work;
        queries * rows * dim as f64 * self.pair.max(self.read / shared.max(1.0))
    }
}

impl HostRows {
    /// About how long a search of all rows takes.
    pub(crate) fn expected(&self, queries: usize) -> Option<Duration> {
        let (queries, rows) = (queries as f64, self.end() as f64);
        expected(Work { queries, rows, shared: queries, dim: self.dim }, self.is_narrowed())
    }
}

impl HostLists {
    /// About how long a search of so many lists a query takes, which are not more than there are.
    pub(crate) fn expected(&self, rows: &HostRows, queries: usize, probes: usize) -> Option<Duration> {
        let share = probes as f64 / self.len() as f64;
        let chunk = self.chunk(queries, rayon::current_num_threads(), probes);
        let work = Work {
            queries: queries as f64,
            rows: rows.end() as f64 * share,
            shared: chunk as f64 * share,
            dim: rows.dim,
        };
        let fine = expected(work, rows.is_narrowed())?;
        if probes == self.len() {
            return Some(fine);
        }
        fine.checked_add(self.centroids.rows.expected(queries)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_pairs_and_rows_that_are_read() {
        let pace = Pace { read: 8.0, pair: 1.0 };
        let work = Work { queries: 1.0, rows: 10.0, shared: 1.0, dim: 3 };
        assert_eq!(pace.seconds(work), 240.0, "one query reads all");
        assert_eq!(
            pace.seconds(Work { queries: 4.0, shared: 4.0, ..work }),
            240.0,
            "four share what is read"
        );
        assert_eq!(pace.seconds(Work { queries: 16.0, shared: 16.0, ..work }), 480.0, "and many compute");
        assert_eq!(pace.seconds(Work { queries: 16.0, shared: 0.1, ..work }), 16.0 * 240.0, "none shares");
    }
}
