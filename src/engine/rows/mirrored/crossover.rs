//! Decides whether the host is faster than the GPU for a search, from the times of earlier searches of about the same size.
//!
//! The size of a search is the time that the host is expected to take: it covers rows, queries, dim and probes, so the times stay
//! comparable when an index grows or shrinks. One least time over all sizes would mislead: after a few large batches, which take the GPU
//! long, the host would also get single queries that the GPU answers far sooner, and no measurement would correct it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Classes of sizes, each twice the one before, from 1 ns to more than two minutes.
const SIZES: usize = 38;

/// The first searches do not count: they compile kernels.
const FIRST: u64 = 2;

/// Searches after which the least time counts. More than one, because a search may wait for others, or for another program.
const KNOWN: u64 = FIRST + 3;

/// Where a search ran.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ran {
    OnGpu,
    OnHost,
}

/// The times of searches of one size on one engine.
#[derive(Debug)]
struct Least {
    searches: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The least times on both engines, size by size. Threads note their searches concurrently.
#[derive(Debug)]
pub(super) struct Crossover {
    gpu: [Least; SIZES],
    host: [Least; SIZES],
}

impl Default for Crossover {
    fn default() -> Self {
        let none = || Least { searches: AtomicU64::new(0), nanoseconds: AtomicU64::new(u64::MAX) };
        Self { gpu: std::array::from_fn(|_| none()), host: std::array::from_fn(|_| none()) }
    }
}

impl Least {
    fn note(&self, took: Duration) {
        if self.searches.fetch_add(1, Relaxed) >= FIRST {
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.nanoseconds.fetch_min(took, Relaxed);
        }
    }

    fn known(&self) -> Option<Duration> {
        let nanoseconds = self.nanoseconds.load(Relaxed);
        // Another thread may have counted a search but not yet stored its time.
        let is_known = self.searches.load(Relaxed) >= KNOWN && nanoseconds != u64::MAX;
        is_known.then(|| Duration::from_nanos(nanoseconds))
    }
}

impl Crossover {
    pub(super) fn note(&self, ran: Ran, size: Duration, took: Duration) {
        let of_sizes = match ran {
            Ran::OnGpu => &self.gpu,
            Ran::OnHost => &self.host,
        };
        of_sizes[place(size)].note(took);
    }

    /// Whether the host is faster for a search of this size. `latency` is the time of a launch and a readback on the GPU.
    pub(super) fn is_host_ahead(&self, size: Duration, latency: Duration) -> bool {
        let place = place(size);
        is_ahead(self.host[place].known().unwrap_or(size), self.gpu[place].known(), latency)
    }
}

/// Whether the host's time is below the GPU's least time, where that is known.
fn is_ahead(host: Duration, gpu: Option<Duration>, latency: Duration) -> bool {
    // No search on the GPU takes less than a launch and a readback.
    host < gpu.map_or(latency, |gpu| gpu.max(latency))
}

fn place(size: Duration) -> usize {
    let nanoseconds = u64::try_from(size.as_nanos()).unwrap_or(u64::MAX);
    (nanoseconds.max(1).ilog2() as usize).min(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_micros(40);

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn the_host_takes_searches_shorter_than_a_launch() {
        assert!(is_ahead(micros(39), None, LATENCY));
        assert!(!is_ahead(micros(40), None, LATENCY));
        assert!(is_ahead(micros(149), Some(micros(150)), LATENCY));
        assert!(!is_ahead(micros(150), Some(micros(150)), LATENCY));
        // A time below that of a launch was no whole search.
        assert!(is_ahead(micros(39), Some(micros(1)), LATENCY));
    }

    #[test]
    fn the_least_time_of_a_size_decides_without_the_first_searches() {
        let seen = Crossover::default();
        let size = micros(100);
        // The first two compile kernels, another waits.
        for took in [90_000, 20_000, 400, 150, 160] {
            assert!(!seen.is_host_ahead(size, LATENCY), "not known yet");
            seen.note(Ran::OnGpu, size, micros(took));
        }
        assert!(seen.is_host_ahead(size, LATENCY), "100 are less than 150");
        seen.note(Ran::OnGpu, size, micros(80));
        assert!(!seen.is_host_ahead(size, LATENCY), "and more than 80");
    }

    #[test]
    fn times_of_batches_do_not_count_for_single_queries() {
        let seen = Crossover::default();
        (0..9).for_each(|_| seen.note(Ran::OnGpu, micros(2_000_000), micros(50_000)));
        assert!(!seen.is_host_ahead(micros(30_000), LATENCY), "the GPU may be done in 300");
        assert!(!seen.is_host_ahead(micros(2_000_000), LATENCY));
    }

    #[test]
    fn measured_times_of_the_host_replace_expected_ones() {
        let seen = Crossover::default();
        let size = micros(100);
        (0..KNOWN).for_each(|_| seen.note(Ran::OnGpu, size, micros(150)));
        (0..KNOWN).for_each(|_| seen.note(Ran::OnHost, size, micros(240)));
        assert!(!seen.is_host_ahead(size, LATENCY));
        // Below the latency as well.
        let size = micros(30);
        (0..KNOWN).for_each(|_| seen.note(Ran::OnHost, size, micros(60)));
        assert!(!seen.is_host_ahead(size, LATENCY), "the GPU is tried");
        (0..KNOWN).for_each(|_| seen.note(Ran::OnGpu, size, micros(70)));
        assert!(seen.is_host_ahead(size, LATENCY));
    }

    #[test]
    fn every_size_has_a_place() {
        for size in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            assert!(place(size) < SIZES);
        }
        assert_eq!(place(micros(100)), place(micros(70)));
        assert_ne!(place(micros(100)), place(micros(50)));
    }
}
