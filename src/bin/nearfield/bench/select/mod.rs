//! `nearfield bench select`: the k smallest elements of rows that lie on the device.

mod place;
mod values;

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args as ClapArgs;
use nearfield::Device;
use serde_json::{Value, json};

use super::ceilings::{Ceilings, Warmer, is_processor};
use super::{Times, WARM_UP, milliseconds, needs_kernels, rounded};
use crate::device::Choice;
use place::Place;
use values::{Kind, Shape, Truth};

/// Arguments of `nearfield bench select`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// Rows and elements of each, a case each; 20000x500,1000x10000,100x100000,10x1000000, or a hundredth of those rows on a
    /// software adapter
    #[arg(long, value_delimiter = ',', value_name = "ROWSxLENGTH,…")]
    shapes: Vec<Shape>,
    /// Elements wanted of each row, a case each; those beyond a row's length are left out
    #[arg(
        short,
        long,
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,128,256",
        value_name = "K,…"
    )]
    k: Vec<u32>,
    /// What the elements are, a case each
    #[arg(long, value_delimiter = ',', default_value = "normal", value_name = "KIND,…")]
    values: Vec<Kind>,
    /// Timed runs of a case, at least 3
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Selects without room for lists of what may be selected, as a caller would who has none
    #[arg(long)]
    no_scratch: bool,
    #[command(flatten)]
    device: Choice,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  nearfield bench select
  nearfield bench select --shapes 100x1000000,1x1000000,10000x10000 --k 1,10,100,1000 --json
  nearfield bench select --shapes 100x100000 --k 10,2048,10000,100000
  nearfield bench select --shapes 1000x10000 --values normal,equal,sorted,reversed,infinite-90

The elements are f32 on the device; times are from submitting the selection to its end, and on the device by its timestamps. \
Results stay on the device, keys, positions and counts of every row in order. Every case checks all of them against the host \
before it is timed, and once more afterwards; a wrong one ends the run with exit code 1.

Kinds of elements: normal (mean 10, deviation 100), equal (all the same), sorted and reversed (rows that rise or fall), \
infinite-10, -90, -99.9 and -100 (so many per cent of them infinite, the others normal), nan (one in ten is NaN).

JSON lines, one object each; times in milliseconds, rates per second:
  {\"record\":\"device\", date, adapter, backend, driver, kind, version, copy_bytes_per_s, flops_per_s, latency_ms}
  {\"record\":\"case\", suite, rows, length, k, values, scratch_bytes, runs, ms, ms_least, ms_most, device_ms,
   device_ms_least, bytes_per_s, share_of_copy, verified, kernels: {NAME: {ms, passes}}}
`bytes_per_s` counts every element as read once, and is that of device_ms; without timestamps device_ms is null and the rate \
is that of ms. `kernels` are timed in a run of their own, with a pass each, which takes a few microseconds more of each.";

/// Runs the suite.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    needs_kernels(&device, "bench select")?;
    let fewer = if is_processor(&device) { 100 } else { 1 };
    let usual = [(20_000, 500), (1000, 10_000), (100, 100_000), (10, 1_000_000)];
    let shapes = match args.shapes.is_empty() {
        false => args.shapes.clone(),
        true => usual.map(|(rows, length)| Shape { rows: (rows / fewer).max(1), length }).to_vec(),
    };
    ensure!(args.k.iter().all(|&k| k > 0), "--k: needed at least 1, given 0");
    let limit = device.capabilities().max_binding_bytes;
    for shape in &shapes {
        ensure!(
            shape.bytes() <= limit,
            "--shapes: needed at most {limit} bytes of elements, as one binding of this adapter has, given {} for {shape}",
            shape.bytes()
        );
    }
    let ceilings = Ceilings::measure(&device)?;
    ceilings.report(&device, args.json)?;
    let bench = Bench { args, device: &device, ceilings, warmer: Warmer::new(&device)? };
    for shape in shapes {
        for &kind in &args.values {
            bench.cases(shape, kind)?;
        }
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a Args,
    device: &'a Device,
    ceilings: Ceilings,
    warmer: Warmer,
}

impl Bench<'_> {
    /// One case for each k.
    fn cases(&self, shape: Shape, kind: Kind) -> anyhow::Result<()> {
        let values = values::made(shape, kind)?;
        let wanted: Vec<u32> = self.args.k.iter().copied().filter(|&k| k <= shape.length).collect();
        let Some(&most) = wanted.iter().max() else { return Ok(()) };
        let truth = Truth::new(&values, shape, most)?;
        let on_device = self.device.upload_vector(&values)?;
        drop(values);
        for k in wanted {
            let place = Place::new(self.device, &on_device, shape, k, !self.args.no_scratch)?;
            place.run(self.device)?;
            place.check(self.device, &truth)?;
            let started = Instant::now();
            while started.elapsed() < WARM_UP {
                place.run(self.device)?;
            }
            let runs = self.args.runs.max(3);
            let wall = Times::of(runs, || place.run(self.device))?;
            let mut times = vec![];
            for _ in 0..runs {
                self.warmer.warm(self.device)?;
                times.extend(place.timed(self.device, false)?.map(|(total, _)| total));
            }
            times.sort_unstable();
            self.warmer.warm(self.device)?;
            let kernels = place.timed(self.device, true)?.map(|(_, kernels)| kernels);
            place.check(self.device, &truth)?;
            self.report(shape, kind, &place, (wall, &times, kernels.unwrap_or_default()))?;
        }
        Ok(())
    }

    fn report(
        &self,
        shape: Shape,
        kind: Kind,
        place: &Place<'_>,
        (wall, times, kernels): (Times, &[Duration], Value),
    ) -> anyhow::Result<()> {
        let on_device = times.get(times.len() / 2).copied();
        let time = on_device.unwrap_or(wall.median);
        let rate = shape.bytes() as f64 / time.as_secs_f64();
        let share = rate / self.ceilings.copy_bytes;
        if !self.args.json {
            writeln!(
                stdout(),
                "{:<16} k {:>6}, {:<13} {:>9.3} ms, on the device {:>9.3} ms, {:>8.2} GB/s, {:>5.1} % of a copy",
                format!("{shape}"),
                place.k,
                format!("{kind}:"),
                milliseconds(wall.median),
                milliseconds(time),
                rate / 1e9,
                100.0 * share,
            )?;
            return Ok(());
        }
        let line = json!({
            "record": "case", "suite": "select", "rows": shape.rows, "length": shape.length, "k": place.k,
            "values": kind.to_string(), "scratch_bytes": place.scratch_bytes, "runs": self.args.runs.max(3),
            "ms": milliseconds(wall.median), "ms_least": milliseconds(wall.least),
            "ms_most": milliseconds(wall.most), "device_ms": on_device.map(milliseconds),
            "device_ms_least": times.first().copied().map(milliseconds),
            "bytes_per_s": rounded(rate), "share_of_copy": rounded(share), "verified": true, "kernels": kernels,
        });
        writeln!(stdout(), "{line}")?;
        Ok(())
    }
}
