//! `nearfield-bench distance`: distances of all pairs of two sets that lie on the device.

use std::cell::RefCell;
use std::time::Instant;

use anyhow::{Result, ensure};
use nearfield::recording::Pairs;
use nearfield::{BufferSlice, Device, DeviceMatrix, DistanceOptions, Metric, Precision, wgpu};
use serde_json::json;

use crate::case::Case;
use crate::ceilings::{Unit, Work};
use crate::data::{BATCHES, Source, View, batches};
use crate::gpu::{has_kernels, profiled, rotation, storage, total, wait};
use crate::run::{Run, Suite};
use crate::units::rounded;
use nearfield_testing::Random;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of rows, one case each
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = nearfield_cli::given::arguments::count)]
    sizes: Vec<usize>,
    /// Numbers of queries, one case each; 1,128, or as many as a file has
    #[arg(long = "batch", value_delimiter = ',', value_name = "Q,…", value_parser = nearfield_cli::given::arguments::count)]
    queries: Vec<usize>,
    /// Metrics, one case each: l2sq, l2, cosine, ip
    #[arg(long, value_delimiter = ',', default_value = "l2sq,cosine", value_name = "METRIC,…", value_parser = nearfield_cli::given::arguments::metric_of_numbers)]
    metric: Vec<Metric>,
    /// Precisions, one case each: fast, compensated, half (cosine and ip)
    #[arg(long, value_delimiter = ',', default_value = "fast", value_name = "PRECISION,…", value_parser = nearfield_cli::given::arguments::word::<Precision>)]
    precision: Vec<Precision>,
    /// Pairs of a case that are checked against f64, drawn by chance
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    verify: usize,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench distance
  nearfield-bench distance --count 100000 --dim 768 --batch 1,16,256 --metric cosine --json
  nearfield-bench distance --count 100000 --dim 384 --batch 256 --metric l2 --precision fast,compensated

Rows, queries and results stay on the device. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

const QUERIES: [usize; 2] = [1, 128];

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        let counts = self.source.counts(&self.queries, &QUERIES)?;
        let (rows, queries) = self.source.both_at_least(&counts, BATCHES)?;
        let (rows, queries) = (rows.view()?, queries.view()?);
        let sizes = self.source.sizes(&self.sizes, rows)?;
        run.begin("distance", sizes.len() * counts.len() * self.metric.len() * self.precision.len())?;
        let device = run.device.clone();
        let upload = |vectors| device.upload(vectors);
        for size in sizes {
            if run.is_over(&format!("{size} rows, dim {}", rows.dim()))? {
                continue;
            }
            let rows = rows.slice(0..size);
            let copies = rotation(&device, 4 * rows.values().len() as u64);
            let rows_there = (0..copies).map(|_| upload(rows)).collect::<nearfield::Result<Vec<_>>>()?;
            for &count in &counts {
                let queries = batches(queries, count);
                let queries_there =
                    queries.iter().map(|&queries| upload(queries)).collect::<nearfield::Result<Vec<_>>>()?;
                for (&metric, &precision) in
                    self.metric.iter().flat_map(|metric| self.precision.iter().map(move |one| (metric, one)))
                {
                    let options = DistanceOptions::new(metric).precision(precision);
                    case(self, run, (rows, &rows_there), (&queries, &queries_there), options)?;
                }
            }
        }
        Ok(())
    }
}

fn case(
    args: &Args,
    run: &mut Run,
    (rows, rows_there): (View<'_>, &[DeviceMatrix]),
    (queries, queries_there): (&[View<'_>], &[DeviceMatrix]),
    options: DistanceOptions,
) -> Result<()> {
    let DistanceOptions { metric, precision, .. } = options;
    let (count, size, dim) = (queries[0].rows(), rows.rows(), rows.dim());
    let identity = json!({
        "rows": size, "dim": dim, "queries": count, "metric": metric.name(), "elements": "f32",
        "precision": precision.name(), "data": args.source.name_of(size),
    });
    let Some(mut case) = run.start(identity)? else { return Ok(()) };
    let device = run.device.clone();
    // Every run takes other queries and another copy of the rows.
    let of = |number: usize| {
        (&queries_there[number % queries_there.len()], &rows_there[number % rows_there.len()])
    };
    let distances = RefCell::new(device.distances_with(&queries_there[0], &rows_there[0], options)?);
    let compute = |number: usize| -> Result<()> {
        let (queries, rows) = of(number);
        device.distances_into(queries, rows, options, &mut distances.borrow_mut())?;
        if has_kernels(&device) {
            wait(&device)?;
        }
        Ok(())
    };
    let computed = |number: usize| -> Result<Vec<f32>> {
        compute(number)?;
        Ok(device.read(&distances.borrow())?)
    };
    let pairs = count * size;
    let (checked, mut random) = (args.verify.div_ceil(queries.len()), Random::new(0));
    let (mut error, mut all) = (0.0f64, vec![]);
    for (number, queries) in queries.iter().enumerate() {
        let found = computed(number)?;
        for _ in 0..checked {
            let pair = random.below(pairs);
            let (query, row) = (queries.row(pair / size), rows.row(pair % size));
            let off = (f64::from(found[pair]) - metric.exact(query, row)).abs();
            let bound = precision.error_bound(metric, query, row);
            ensure!(off <= bound, "pair {pair} is off by {off}, more than the promised {bound}");
            error = error.max(off / bound.max(f64::MIN_POSITIVE));
        }
        all.push(found);
    }
    let into = has_kernels(&device).then(|| storage(&device, "distances", 4 * pairs as u64)).transpose()?;
    let (wall, times) = run.time(
        1,
        |number| {
            let started = Instant::now();
            compute(number)?;
            Ok(started.elapsed())
        },
        |number| {
            let Some(into) = &into else { return Ok(None) };
            run.warm()?;
            time(&device, of(number), options, into)
        },
    )?;
    let turns = queries_there.len().max(rows_there.len());
    for number in 0..turns {
        ensure!(
            computed(number)? == all[number % all.len()],
            "the distances after the timed runs differ from those that were checked"
        );
    }
    // Matrices have a copy in f16 when calls use it.
    let is_half = queries_there[0].halves().is_some() && rows_there[0].halves().is_some();
    let (element, unit) =
        if precision == Precision::Half && is_half { (2, Unit::Matrices) } else { (4, Unit::Floats) };
    let bytes = (element * (size * dim + count * dim) + 4 * pairs) as f64;
    case.add(json!({ "error": rounded(error) }));
    run.case(Case {
        wall,
        on_device: times,
        work: Some(Work {
            bytes,
            operations: 2.0 * pairs as f64 * dim as f64,
            unit,
            working_set: (element * (size * dim * rows_there.len() + count * dim * queries.len()) + 4 * pairs)
                as f64,
        }),
        verified: json!(checked * queries.len()),
        rotated: turns,
        ..case
    })
}

/// The time of the kernel on the device, or nothing without timestamps.
fn time(
    device: &Device,
    (queries, rows): (&DeviceMatrix, &DeviceMatrix),
    options: DistanceOptions,
    into: &wgpu::Buffer,
) -> Result<Option<std::time::Duration>> {
    let pairs = Pairs {
        options,
        unit_vectors: false,
        norms: Some([queries.norms()?, rows.norms()?]),
        halves: queries.halves().zip(rows.halves()).map(|(queries, rows)| [queries, rows]),
        queries: queries.as_slice()?,
        query_count: queries.rows() as u32,
        query_stride: queries.stride() as u32,
        rows: rows.as_slice()?,
        row_count: rows.rows() as u32,
        row_stride: rows.stride() as u32,
        // As the library does: zeros pad the vectors.
        dim: rows.stride() as u32,
        distances: BufferSlice::all(into),
        distance_stride: rows.rows() as u32,
    };
    let stages = profiled(device, false, |recorder| Ok(recorder.distances(&pairs)?))?;
    Ok(stages.and_then(|stages| total(&stages)))
}
