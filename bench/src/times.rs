//! Times of several runs, and of their stages on the device.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use nearfield::StageTime;
use serde_json::{Value, json};

use super::units::milliseconds;

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

/// Times and passes of each stage, one entry per run.
#[derive(Debug, Default)]
pub(super) struct Parts(BTreeMap<&'static str, Vec<(Duration, u32)>>);

impl Parts {
    /// Adds a run and returns the time of all its stages, or nothing if the device has no timestamps.
    pub(super) fn add(&mut self, times: &[StageTime]) -> Option<Duration> {
        for one in times {
            self.0.entry(one.stage).or_default().push((one.time, one.passes));
        }
        times.iter().map(|one| one.time).reduce(|a, b| a + b)
    }

    /// The median of each stage.
    pub(super) fn medians(self) -> Stages {
        let median = |(stage, mut times): (_, Vec<(Duration, u32)>)| {
            times.sort_unstable();
            Some((stage, *times.get(times.len() / 2)?))
        };
        Stages(self.0.into_iter().filter_map(median).collect())
    }
}

/// Median time and passes of each stage.
pub(super) struct Stages(pub(super) BTreeMap<&'static str, (Duration, u32)>);

impl Stages {
    /// The field `stages` of a JSON line.
    pub(super) fn to_json(&self) -> Value {
        let ms = |(time, passes): &(Duration, u32)| json!({ "ms": milliseconds(*time), "passes": passes });
        Value::Object(self.0.iter().map(|(stage, median)| ((*stage).to_owned(), ms(median))).collect())
    }

    /// One line of text per stage.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(stage, (time, passes))| {
            format!("{stage:<16} {:>10.3} ms in {passes} passes", milliseconds(*time))
        })
    }
}
