//! Ceilings of a device, and the share of them that a case reaches.

use anyhow::Result;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::times::Times;
use super::super::units::{milliseconds, rounded};

/// Bytes per second by the size of the working set.
#[derive(Debug, Clone)]
pub(crate) struct Curve(Vec<(u64, f64)>);

impl Curve {
    /// Measures working sets of 1 MiB, 4 MiB, 16 MiB and so on, up to `most`.
    pub(super) fn measure(most: u64, one: impl Fn(u64) -> Result<f64>) -> Result<Self> {
        let sizes: Vec<u64> =
            (0..6).map(|step| (1 << 20) << (2 * step)).take_while(|&bytes| bytes <= most).collect();
        // An adapter may bind less than 1 MiB.
        let sizes = if sizes.is_empty() { vec![most] } else { sizes };
        Ok(Self(sizes.into_iter().map(|bytes| anyhow::Ok((bytes, one(bytes)?))).collect::<Result<_, _>>()?))
    }

    /// The rate of a working set: that of the next smaller measured one, which is the faster neighbour.
    pub(crate) fn at(&self, bytes: f64) -> f64 {
        let smaller = self.0.iter().rev().find(|(size, _)| *size as f64 <= bytes);
        smaller.or(self.0.first()).map_or(0.0, |(_, rate)| *rate)
    }

    /// The rate of the largest working set.
    pub(crate) fn of_memory(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, rate)| *rate)
    }

    fn to_json(&self) -> Value {
        self.0.iter().map(|&(bytes, rate)| json!([bytes, rounded(rate)])).collect()
    }
}

/// The kind of arithmetic that a case does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Multiply-adds of f32, and operations of the same cost.
    Floats,
    /// Products of 8-bit integers.
    Integers,
    /// f16 in cooperative matrices.
    Matrices,
}

impl Unit {
    /// Bytes of a row of an index whose scores are computed this way: zeros pad it.
    pub(crate) fn row_bytes(self, dim: usize) -> f64 {
        (if self == Self::Floats { 4 * dim.next_multiple_of(4) } else { dim.next_multiple_of(32) }) as f64
    }
}

/// The least that a case reads and computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) bytes: f64,
    pub(crate) operations: f64,
    pub(crate) unit: Unit,
    /// Bytes in use over all runs, which decide whether a cache holds them.
    pub(crate) working_set: f64,
}

/// Ceilings of a device. Rates count a multiply-add as two operations.
#[derive(Debug, Clone)]
pub(crate) struct Ceilings {
    /// Counts both read and written bytes.
    pub(crate) copy: Curve,
    pub(crate) read: Curve,
    pub(crate) flops: f64,
    /// Multiply-adds of 8-bit integers; not measured on the host engine.
    pub(crate) integers: Option<f64>,
    /// f16 in cooperative matrices, if the device has them.
    pub(crate) matrices: Option<f64>,
    /// From the submission of an empty kernel to four bytes of its result. On the host engine, waking all threads.
    pub(crate) latency: Duration,
}

/// The rates of a case, and its share of the ceiling it meets first: the roofline (Williams, Waterman and Patterson,
/// "Roofline: an insightful visual performance model for multicore architectures", CACM 2009).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) bytes_per_s: f64,
    pub(crate) operations_per_s: f64,
    pub(crate) intensity: f64,
    /// The ceiling that is met first and the share of it, unless the operations have no ceiling.
    pub(crate) bound: Option<(&'static str, f64)>,
}

impl Ceilings {
    /// The rates of some work done in a time, and its share of a ceiling.
    pub(crate) fn reached(&self, work: &Work, time: Duration) -> Reached {
        let seconds = time.as_secs_f64().max(1e-9);
        let (computed, bound) = match work.unit {
            Unit::Floats => (Some(self.flops), "flops"),
            Unit::Integers => (self.integers, "integers"),
            Unit::Matrices => (self.matrices, "matrices"),
        };
        let reading = work.bytes / self.read.at(work.working_set).max(1.0);
        let bound = computed.map(|rate| {
            let computing = work.operations / rate.max(1.0);
            let (least, bound) = if computing > reading { (computing, bound) } else { (reading, "read") };
            (bound, least / seconds)
        });
        Reached {
            bytes_per_s: work.bytes / seconds,
            operations_per_s: work.operations / seconds,
            intensity: work.operations / work.bytes.max(1.0),
            bound,
        }
    }

    pub(crate) fn fields(&self) -> Value {
        json!({
            "copy_bytes_per_s": rounded(self.copy.of_memory()), "read_bytes_per_s": rounded(self.read.of_memory()),
            "flops_per_s": rounded(self.flops), "integer_ops_per_s": self.integers.map(rounded),
            "matrix_flops_per_s": self.matrices.map(rounded), "latency_ms": milliseconds(self.latency),
            "copy_curve": self.copy.to_json(), "read_curve": self.read.to_json(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let giga = |rate: f64| format!("{:.1} G", rate / 1e9);
        let or_none =
            |rate: Option<f64>| rate.map_or_else(|| "not measured".to_owned(), |rate| giga(rate) + "op/s");
        let [reads, copies, floats] = [self.read.of_memory(), self.copy.of_memory(), self.flops].map(giga);
        let [integers, matrices] = [self.integers, self.matrices].map(or_none);
        let latency = milliseconds(self.latency);
        format!(
            "ceilings: reads {reads}B/s, copies {copies}B/s (read and written), f32 {floats}FLOP/s, 8-bit integers \
             {integers}, f16 matrices {matrices}, launch and readback {latency:.3} ms",
        )
    }
}

/// The least of the times that some runs return, because a ceiling is the best possible rate.
pub(super) fn least_of(warm: Duration, mut run: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    // The first runs also bring the clocks up.
    let started = Instant::now();
    run()?;
    while started.elapsed() < warm {
        run()?;
    }
    Ok(Times::of(5, |_| run())?.least)
}

/// Warm-up of a kernel after similar ones have run.
pub(super) const WARM: Duration = Duration::from_millis(20);
