//! The load: threads that search, as soon as they can or when searches arrive.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, sleep, yield_now};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nearfield::{Index, Neighbors, SearchOptions};

use crate::data::View;
use crate::times::{Times, WARM_UP};
use nearfield_testing::Random;

/// The end of a sleep is this uncertain: a thread that waits for an arrival stays awake for the rest.
const AWAKE: Duration = Duration::from_micros(200);

/// The most times that a case is warmed up: on a slow device one search takes longer than a warm-up should.
const MOST_WARM_UPS: usize = 4;

/// The most arrivals of a case, whose times take memory.
const MOST_ARRIVALS: usize = 100_000_000;

/// Callers, and what they search for.
#[derive(Clone, Copy)]
pub(super) struct Load<'l> {
    pub(super) index: &'l Index,
    /// The queries of each search.
    pub(super) searches: &'l [View<'l>],
    /// The answer to each.
    pub(super) answers: &'l [Neighbors],
    pub(super) options: &'l SearchOptions<'l>,
    pub(super) threads: usize,
    /// Searches that arrive in a second; none in a closed loop.
    pub(super) rate: Option<usize>,
    pub(super) duration: Duration,
}

/// The latencies and answers of one caller, or of all together.
#[derive(Default)]
pub(super) struct Seen {
    /// Of all searches that arrived within the time, sorted when all are there.
    latencies: Vec<Duration>,
    /// Queries of searches that ended within the time.
    pub(super) queries: usize,
    /// Queries that were searched together, summed over searches.
    together: u64,
    /// Searches that had arrived and not begun when the time was over. They count with the time they waited by then.
    pub(super) late: usize,
}

impl Seen {
    fn add(mut self, other: Self) -> Self {
        self.latencies.extend(other.latencies);
        self.queries += other.queries;
        self.together += other.together;
        self.late += other.late;
        self
    }

    /// The latency that this share of all searches does not exceed.
    pub(super) fn at(&self, share: f64) -> Duration {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn times(&self) -> Times {
        Times { median: self.at(0.5), least: self.at(0.0), most: self.at(1.0), runs: self.latencies.len() }
    }

    /// The mean number of queries that were searched together.
    pub(super) fn mean_together(&self) -> f64 {
        self.together as f64 / (self.latencies.len() - self.late).max(1) as f64
    }
}

/// The times of a case.
struct Clock {
    end: Instant,
    /// When searches arrive, in an open loop.
    arrivals: Option<Vec<Instant>>,
    next: AtomicUsize,
    has_failed: AtomicBool,
}

impl Load<'_> {
    pub(super) fn serve(&self) -> Result<Seen> {
        self.warm_up()?;
        let mut seen = self.run(self.rate, self.duration)?;
        seen.latencies.sort_unstable();
        Ok(seen)
    }

    /// Raises clocks, and compiles the kernels of all sizes of batches: until that takes no longer than it should.
    fn warm_up(&self) -> Result<()> {
        for _ in 0..MOST_WARM_UPS {
            let begin = Instant::now();
            self.run(None, WARM_UP)?;
            if begin.elapsed() < 2 * WARM_UP {
                break;
            }
        }
        Ok(())
    }

    /// Searches from all threads for some time.
    fn run(&self, rate: Option<usize>, duration: Duration) -> Result<Seen> {
        let begin = Instant::now();
        let end = begin + duration;
        let arrivals = rate.map(|rate| arrivals(begin, end, rate)).transpose()?;
        let clock = Clock { end, arrivals, next: AtomicUsize::new(0), has_failed: AtomicBool::new(false) };
        std::thread::scope(|scope| {
            let callers = (0..self.threads).map(|number| {
                let clock = &clock;
                let call = move || {
                    let seen = self.call(clock, number as u64);
                    if seen.is_err() {
                        clock.has_failed.store(true, Ordering::Relaxed);
                    }
                    seen
                };
                Builder::new()
                    .spawn_scoped(scope, call)
                    .with_context(|| format!("--threads: thread {number}"))
            });
            let callers = callers.collect::<Result<Vec<_>>>()?;
            callers.into_iter().try_fold(Seen::default(), |all, caller| {
                Ok(all.add(caller.join().unwrap_or_else(|_| Err(anyhow!("it panicked")))?))
            })
        })
    }

    /// Searches until the time is over.
    fn call(&self, clock: &Clock, seed: u64) -> Result<Seen> {
        let mut random = Random::new(seed);
        let mut seen = Seen::default();
        while let Some(arrived) = clock.arrival() {
            if clock.has_failed.load(Ordering::Relaxed) {
                break;
            }
            let waited = arrived.elapsed();
            if clock.arrivals.is_some() && arrived + waited >= clock.end {
                seen.late += 1;
                seen.latencies.push(waited);
                continue;
            }
            let number = random.next() as usize % self.searches.len();
            let found = self.index.search_with(self.searches[number], self.options)?;
            let done = Instant::now();
            ensure!(
                found.neighbors == self.answers[number],
                "a timed search differs from the one that was checked"
            );
            let queries = self.searches[number].rows();
            seen.latencies.push(done - arrived);
            seen.together += found.statistics.joined + queries as u64;
            seen.queries += if done <= clock.end { queries } else { 0 };
        }
        Ok(seen)
    }
}

impl Clock {
    /// Waits for the next search; none when the time is over.
    fn arrival(&self) -> Option<Instant> {
        let Some(arrivals) = &self.arrivals else {
            let now = Instant::now();
            return (now < self.end).then_some(now);
        };
        let arrived = *arrivals.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        loop {
            match arrived.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Some(arrived),
                left if left > AWAKE => sleep(left - AWAKE),
                _ => yield_now(),
            }
        }
    }
}

/// Times of arrival with exponential gaps: those of callers who know nothing of each other.
fn arrivals(begin: Instant, end: Instant, rate: usize) -> Result<Vec<Instant>> {
    let expected = rate as f64 * (end - begin).as_secs_f64();
    ensure!(
        expected < MOST_ARRIVALS as f64,
        "--rate: needed at most {MOST_ARRIVALS} arrivals in a case, given {expected:.0}"
    );
    let mut random = Random::new(0);
    let mut at = 0.0;
    let gaps = std::iter::from_fn(|| {
        at -= (1.0 - f64::from(random.part())).ln() / rate as f64;
        Some(begin + Duration::from_secs_f64(at))
    });
    Ok(gaps.take_while(|&arrival| arrival < end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_this_share_does_not_exceed() {
        let of = |latencies: Vec<Duration>| Seen { latencies, ..Seen::default() };
        let seen = of((1..=1000).map(Duration::from_micros).collect());
        let micros = |share| seen.at(share).as_micros();
        assert_eq!([0.0, 0.5, 0.9, 0.99, 0.999, 1.0].map(micros), [1, 500, 900, 990, 999, 1000]);
        let one = of(vec![Duration::from_millis(7)]);
        assert_eq!([0.5, 0.999].map(|share| one.at(share).as_millis()), [7, 7]);
        assert_eq!(of(vec![]).at(0.5), Duration::ZERO);
    }

    #[test]
    fn as_many_arrive_as_asked_for_in_random_gaps() -> Result<()> {
        let begin = Instant::now();
        let arrivals = arrivals(begin, begin + Duration::from_secs(2), 10_000)?;
        assert!((19_000..21_000).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.is_sorted());
        let mut gaps: Vec<Duration> = arrivals.windows(2).map(|two| two[1] - two[0]).collect();
        gaps.sort_unstable();
        let median = gaps[gaps.len() / 2].as_secs_f64() * 10_000.0;
        assert!((median - 2f64.ln()).abs() < 0.05, "{median}");
        assert!(super::arrivals(begin, begin + Duration::from_secs(1000), 1_000_000).is_err());
        Ok(())
    }
}
