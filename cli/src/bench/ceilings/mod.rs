//! What a device can do at best, measured in the run that is compared with it.

mod kernels;
mod processor;

use std::time::{Duration, Instant};

use nearfield::{AdapterKind, Device};
use serde_json::{Value, json};

use super::case::Times;
use super::run::has_kernels;
use super::{milliseconds, rounded};

pub(super) use kernels::{Warmer, time_of};

/// Bytes a second over the size of the working set.
#[derive(Debug, Clone)]
pub(super) struct Curve(Vec<(u64, f64)>);

impl Curve {
    /// Measures working sets of 1 MiB, four times as much, and so on, up to `most`.
    fn measure(most: u64, one: impl Fn(u64) -> anyhow::Result<f64>) -> anyhow::Result<Self> {
        let sizes: Vec<u64> =
            (0..6).map(|step| (1 << 20) << (2 * step)).take_while(|&bytes| bytes <= most).collect();
        // An adapter may bind less than that.
        let sizes = if sizes.is_empty() { vec![most] } else { sizes };
        Ok(Self(sizes.into_iter().map(|bytes| anyhow::Ok((bytes, one(bytes)?))).collect::<Result<_, _>>()?))
    }

    /// The rate of a working set: that of the next smaller one which was measured, as that is the faster one.
    pub(super) fn at(&self, bytes: f64) -> f64 {
        let smaller = self.0.iter().rev().find(|(size, _)| *size as f64 <= bytes);
        smaller.or(self.0.first()).map_or(0.0, |(_, rate)| *rate)
    }

    /// The rate of the largest working set.
    pub(super) fn of_memory(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, rate)| *rate)
    }

    fn to_json(&self) -> Value {
        self.0.iter().map(|&(bytes, rate)| json!([bytes, rounded(rate)])).collect()
    }
}

/// Ceilings of a device. Rates count a multiply-add as two operations.
#[derive(Debug, Clone)]
pub(super) struct Ceilings {
    /// Read and written bytes counted.
    pub(super) copy: Curve,
    pub(super) read: Curve,
    /// Multiply-adds of f32.
    pub(super) flops: f64,
    /// Multiply-adds of 8-bit integers; not measured on the host engine.
    pub(super) integers: Option<f64>,
    /// f16 in cooperative matrices, where there are any.
    pub(super) matrices: Option<f64>,
    /// From submitting an empty kernel to having four bytes of its result; on the host engine, waking all threads.
    pub(super) latency: Duration,
}

impl Ceilings {
    pub(super) fn measure(device: &Device) -> anyhow::Result<Self> {
        if has_kernels(device) { kernels::measure(device) } else { processor::measure() }
    }

    /// The fields of a device's line.
    pub(super) fn fields(&self) -> Value {
        json!({
            "copy_bytes_per_s": rounded(self.copy.of_memory()), "read_bytes_per_s": rounded(self.read.of_memory()),
            "flops_per_s": rounded(self.flops), "integer_ops_per_s": self.integers.map(rounded),
            "matrix_flops_per_s": self.matrices.map(rounded), "latency_ms": milliseconds(self.latency),
            "copy_curve": self.copy.to_json(), "read_curve": self.read.to_json(),
        })
    }

    /// The same for people.
    pub(super) fn text(&self) -> String {
        let giga = |rate: f64| format!("{:.1}", rate / 1e9);
        let or_none = |rate: Option<f64>, unit: &str| {
            rate.map_or_else(|| "not measured".to_owned(), |rate| format!("{} {unit}", giga(rate)))
        };
        format!(
            "ceilings: reads {} GB/s, copies {} GB/s (read and written), f32 {} GFLOP/s, 8-bit integers {}, \
             f16 matrices {}, launch and readback {:.3} ms",
            giga(self.read.of_memory()),
            giga(self.copy.of_memory()),
            giga(self.flops),
            or_none(self.integers, "Gop/s"),
            or_none(self.matrices, "GFLOP/s"),
            milliseconds(self.latency),
        )
    }
}

/// Whether the processor computes, through a software driver or the host engine.
pub(super) fn is_processor(device: &Device) -> bool {
    matches!(device.adapter().kind, AdapterKind::Software | AdapterKind::Host)
}

/// The least of what some runs say they took: a ceiling is what is possible.
fn least_of(warm: Duration, mut run: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Duration> {
    // The first runs also bring the clocks up.
    let started = Instant::now();
    run()?;
    while started.elapsed() < warm {
        run()?;
    }
    Ok(Times::of(5, |_| run())?.least)
}

/// How long something runs before it is timed, when much like it has run just before.
const WARM: Duration = Duration::from_millis(20);
