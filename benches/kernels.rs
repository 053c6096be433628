//! `cargo bench --bench kernels`: single kernels, recorded on buffers as a caller's pipeline does, timed from submission to
//! completion. Answers are checked before timing; under `cargo test --benches` each bench runs once. `nearfield-bench` gives
//! the published figures, and the ceilings of the adapter.

#![expect(missing_docs, reason = "criterion's macro makes public functions")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::bench::{Bench, Bound};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearfield::internals::kernels::select_k::{Rows, Select, Selected};
use nearfield::internals::kernels::{key_of, norms, prefix_sum, select_k};
use nearfield::recording::Pairs;
use nearfield::{DistanceOptions, ElementKind, Metric, Recorder, Result, wgpu};

/// Integers from -2 to 1, so that sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|place| (((place + seed) * 2_654_435_761) >> 7 & 3) as f32 - 2.0).collect()
}

/// Times a recording from submission to completion.
fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    bench: Bench<'_>,
    name: &str,
    throughput: Throughput,
    record: impl Fn(&mut Recorder<'_>) -> Result<()>,
) {
    let wgpu = bench.device.wgpu_device().expect("a GPU");
    group.throughput(throughput);
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter(|| {
            bench.run(&record);
            wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("an end")
        });
    });
}

fn distances(criterion: &mut Criterion) {
    let Some(bench) = Bench::open() else { return };
    println!("{}", bench.device.adapter());
    let mut group = criterion.benchmark_group("distances");
    let (dim, rows, count) = (64, 4096, 8);
    let (row_values, query_values) = (numbers(rows * dim, 1), numbers(count * dim, 2));
    let (row_buffer, query_buffer) = (bench.input(&row_values), bench.input(&query_values));
    let results = bench.output(rows * count);
    let pairs = |metric| Pairs {
        options: DistanceOptions::new(metric),
        unit_vectors: false,
        norms: None,
        halves: None,
        queries: query_buffer.bound(),
        query_count: count as u32,
        query_stride: dim as u32,
        rows: row_buffer.bound(),
        row_count: rows as u32,
        row_stride: dim as u32,
        dim: dim as u32,
        distances: results.bound(),
        distance_stride: rows as u32,
    };
    for metric in [Metric::L2Squared, Metric::InnerProduct] {
        let record = |recorder: &mut Recorder<'_>| recorder.distances(&pairs(metric));
        bench.run(record);
        let found = bench.read_floats(&results);
        for (query, row) in [(0, 0), (1, 17), (7, 4095)] {
            let exact = metric.exact(&query_values[query * dim..][..dim], &row_values[row * dim..][..dim]);
            assert_eq!(f64::from(found[query * rows + row]), exact, "query {query}, row {row}");
        }
        let products = Throughput::Elements((rows * count * dim) as u64);
        time(&mut group, bench, metric.name(), products, record);
    }
    group.finish();

    let mut group = criterion.benchmark_group("norms");
    let (found, refused) = (bench.output(rows * 2), bench.filled(&[u32::MAX; 2]));
    let record = |recorder: &mut Recorder<'_>| {
        let (vectors, kind) = (dim as u32 / 4, ElementKind::F32);
        recorder.norms(row_buffer.bound(), kind, vectors, rows as u32, found.bound(), refused.bound())
    };
    bench.run(record);
    let squared: f32 = row_values[..dim].iter().map(|value| value * value).sum();
    assert_eq!(bench.read_floats(&found)[0], squared, "the first squared norm");
    time(&mut group, bench, norms::KERNEL.name(), Throughput::Bytes((rows * dim * 4) as u64), record);
    group.finish();
}

fn selections(criterion: &mut Criterion) {
    let Some(bench) = Bench::open() else { return };
    let mut group = criterion.benchmark_group(select_k::KERNEL.name());
    let (rows, length) = (16usize, 10_000usize);
    let values: Vec<f32> =
        (0..rows * length).map(|place| ((place * 2_654_435_761) >> 5 & 0xf_ffff) as f32).collect();
    let there = bench.input(&values);
    for k in [10, 256] {
        let [keys, ids, counts] = [rows * k, rows * k * 2, rows].map(|words| bench.output(words));
        let record = |recorder: &mut Recorder<'_>| {
            recorder.select(&Select {
                keys: there.bound(),
                ids: None,
                floats: true,
                rows: Rows::Equal { length: length as u32, pitch: length as u32 },
                count: rows as u32,
                k: k as u32,
                selected: Selected { keys: keys.bound(), ids: ids.bound() },
                selected_pitch: k as u32,
                selected_counts: counts.bound(),
                spare: None,
                scratch: None,
            })
        };
        bench.run(record);
        let mut sorted = values[..length].to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let want = sorted[..k].iter().map(|&value| key_of(value));
        assert!(bench.read(&keys)[..k].iter().copied().eq(want), "the {k} smallest of the first row");
        let bytes = Throughput::Bytes((values.len() * 4) as u64);
        time(&mut group, bench, &format!("k {k}"), bytes, record);
    }
    group.finish();

    let mut group = criterion.benchmark_group(prefix_sum::KERNEL.name());
    let count = 10_000u32;
    let values: Vec<u32> = (0..count).map(|place| place % 7).collect();
    let (counts, offsets) = (bench.input(&values), bench.output(count as usize + 1));
    let record =
        |recorder: &mut Recorder<'_>| recorder.prefix_sum(counts.bound(), count, u32::MAX, offsets.bound());
    bench.run(record);
    assert_eq!(bench.read(&offsets).last(), Some(&values.iter().sum()), "the sum of all counts");
    time(&mut group, bench, "10000", Throughput::Elements(count.into()), record);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = distances, selections
}
criterion_main!(benches);
