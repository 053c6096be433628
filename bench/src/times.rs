//! Times of several runs.

use std::time::Duration;

use anyhow::Result;

/// Warm-up before a measurement: long enough for a card to raise its clocks.
pub(super) const WARM_UP: Duration = Duration::from_millis(300);

/// A case is noisy if its median is more than this many times its least time, as in one case of a thousand on quiet machines.
pub(super) const NOISY: f64 = 1.5;

/// Median and spread of several runs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) median: Duration,
    pub(super) least: Duration,
    pub(super) most: Duration,
    pub(super) runs: usize,
}

impl Times {
    /// Calls `run` with the number of each run, and keeps the times it returns.
    pub(super) fn of(runs: usize, mut run: impl FnMut(usize) -> Result<Duration>) -> Result<Self> {
        (0..runs.max(1)).map(&mut run).collect::<Result<Vec<_>>>().map(Self::from)
    }

    /// Whether other work on the machine has probably made the median longer.
    pub(super) fn is_noisy(&self) -> bool {
        self.median.as_secs_f64() > NOISY * self.least.as_secs_f64()
    }
}

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |place: usize| times.get(place).copied().unwrap_or_default();
        Self {
            median: at(times.len() / 2),
            least: at(0),
            most: at(times.len().saturating_sub(1)),
            runs: times.len(),
        }
    }
}
