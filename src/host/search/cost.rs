//! A cost model of searches on this processor: measured once, it tells how long a search will take.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::elements::{ElementKind, MatrixView};
use crate::host::processor::Host;
use crate::host::rows::store::HostRows;
use crate::host::search::request::{HostRequest, SearchLimit};
use crate::metric::Metric;
use crate::options::device::DeviceOptions;
use crate::parallel::{current_num_threads, thread_pool};
use crate::platform::{CAN_WAIT, Instant};

/// Seconds that a search spends on each element.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// For reading an element of a row.
    read: f64,
    /// For an element of a row with one of a query.
    pair: f64,
}

/// The rows of the measurement fill the second-level caches of all threads, so that they are no faster to read than those of an index. A
/// browser has one thread, which the measurement keeps from other work.
const ROWS: usize = if CAN_WAIT { 4096 } else { 1024 };
const DIM: usize = 512;

/// Queries that fill a thread's registers several times over.
const MANY: usize = 48;

impl Cost {
    /// Measures in a thread pool of its own. A thread of the caller's pool would take on other work while it waits: that work would be
    /// timed too, and could be a search that waits for this very measurement.
    fn measure_apart(is_quantized: bool) -> Option<Self> {
        if !CAN_WAIT {
            return Self::measure(is_quantized);
        }
        let pool = thread_pool(current_num_threads(), "nearfield measure")?;
        let measure = move || pool.install(|| Self::measure(is_quantized));
        std::thread::Builder::new().spawn(measure).ok()?.join().ok()?
    }

    fn measure(is_quantized: bool) -> Option<Self> {
        let values: Vec<f32> = (0..ROWS * DIM).map(|i| (i as f32 * 0.7391).fract() - 0.5).collect();
        let view = MatrixView::new(&values, DIM).ok()?;
        let host = Arc::new(Host::new(DeviceOptions::default()));
        let mut rows = HostRows::new(host, Metric::L2Squared, ElementKind::F32, DIM, is_quantized);
        let slots: Vec<u32> = (0..ROWS as u32).collect();
        let ids: Vec<u64> = (0..ROWS as u64).collect();
        let mut change = rows.prepared(Some(view.into()), &slots, &[]).ok()?;
        rows.put(view.into(), (&slots, &ids), &mut change, (&mut |_| (), || Ok(()))).ok()?;
        rows.apply(change);
        let limit = SearchLimit::Nearest(10);
        let request = HostRequest { limit, budget: u64::MAX, allowed: None, progress: None };
        let time = |queries: usize| {
            let once = || {
                let started = Instant::now();
                rows.search(view.slice(0..queries).into(), &request).ok()?;
                Some(started.elapsed().as_secs_f64())
            };
            (0..5).filter_map(|_| once()).reduce(f64::min)
        };
        let elements = (ROWS * DIM) as f64;
        Some(Self { read: time(1)? / elements, pair: time(MANY)? / elements / MANY as f64 })
    }

    fn seconds(self, work: Work) -> f64 {
        let Work { queries, rows, shared, dim } = work;
        queries * rows * dim as f64 * self.pair.max(self.read / shared.max(1.0))
    }
}

/// The size of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) queries: f64,
    /// Rows scored for each query.
    pub(crate) rows: f64,
    /// Queries that are scored each time a row is read.
    pub(crate) shared: f64,
    pub(crate) dim: usize,
}

/// Roughly how long this work takes; none where the cost is not known.
pub(crate) fn expected(work: Work, is_quantized: bool) -> Option<Duration> {
    static COSTS: [OnceLock<Option<Cost>>; 2] = [OnceLock::new(), OnceLock::new()];
    let cost = (*COSTS[usize::from(is_quantized)].get_or_init(|| Cost::measure_apart(is_quantized)))?;
    Duration::try_from_secs_f64(cost.seconds(work)).ok()
}

impl HostRows {
    /// Roughly how long a search of all rows takes.
    pub(crate) fn expected(&self, queries: usize) -> Option<Duration> {
        let (queries, rows) = (queries as f64, self.end() as f64);
        expected(Work { queries, rows, shared: queries, dim: self.dim() }, self.is_quantized())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_reading_rows_or_of_pairs_whichever_is_longer() {
        let cost = Cost { read: 8.0, pair: 1.0 };
        let work = Work { queries: 1.0, rows: 10.0, shared: 1.0, dim: 3 };
        assert_eq!(cost.seconds(work), 240.0, "one query reads all rows");
        let four = Work { queries: 4.0, shared: 4.0, ..work };
        assert_eq!(cost.seconds(four), 240.0, "four queries share the reads");
        let many = Work { queries: 16.0, shared: 16.0, ..work };
        assert_eq!(cost.seconds(many), 480.0, "pairs take longer than the shared reads");
        let apart = Work { queries: 16.0, shared: 0.1, ..work };
        assert_eq!(cost.seconds(apart), 16.0 * 240.0, "a row is read at least once a query");
    }
}
