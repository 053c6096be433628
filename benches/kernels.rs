//! `cargo bench --bench kernels`: single kernels, recorded on buffers as a caller's pipeline does, timed from submission to
//! completion. Answers are checked before timing; under `cargo test --benches` each bench runs once. `nearfield bench` gives
//! the published figures.

#![expect(missing_docs, reason = "criterion's macro makes public functions")]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearfield::internals::ceilings::{copy, multiply_add, read_vectors};
use nearfield::internals::kernels::distance_pairs::Pairs;
use nearfield::internals::kernels::select_k::{Rows, Select, Selected};
use nearfield::internals::kernels::{key_of, norms, prefix_sum, select_k};
use nearfield::{BufferSlice, Device, ElementKind, Metric, Output, Recorder, Result, wgpu};

/// A device that runs kernels.
struct Bench {
    device: Device,
}

impl Bench {
    /// Returns `None` without an adapter, or with only the host engine.
    fn new() -> Option<Self> {
        let device = Device::best().or_else(|_| Device::named("software")).ok()?;
        let device = if device.wgpu_device().is_ok() { device } else { Device::named("software").ok()? };
        Some(Self { device })
    }

    fn buffer(&self, bytes: usize) -> wgpu::Buffer {
        self.device.wgpu_device().expect("an adapter").create_buffer(&wgpu::BufferDescriptor {
            label: Some("bench"),
            size: bytes as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    fn filled(&self, values: &[f32]) -> wgpu::Buffer {
        let buffer = self.buffer(size_of_val(values));
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.device.wgpu_queue().expect("an adapter").write_buffer(&buffer, 0, &bytes);
        buffer
    }

    /// Records, submits and waits.
    fn run(&self, record: impl Fn(&mut Recorder<'_>) -> Result<()>) {
        let wgpu = self.device.wgpu_device().expect("an adapter");
        let mut encoder = wgpu.create_command_encoder(&Default::default());
        let mut recorder = self.device.record(&mut encoder).expect("an adapter");
        record(&mut recorder).expect("a kernel that fits");
        recorder.finish();
        self.device.wgpu_queue().expect("an adapter").submit([encoder.finish()]);
        wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("an end");
    }

    fn read(&self, from: &wgpu::Buffer) -> Vec<u32> {
        let wgpu = self.device.wgpu_device().expect("an adapter");
        let staging = wgpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: from.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = wgpu.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(from, 0, &staging, 0, from.size());
        self.device.wgpu_queue().expect("an adapter").submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |_| ());
        wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("an end");
        let view = staging.get_mapped_range(..).expect("mapped");
        view.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }
}

/// Integers from -2 to 1, so that sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|place| (((place + seed) * 2_654_435_761) >> 7 & 3) as f32 - 2.0).collect()
}

fn floats(words: &[u32]) -> impl Iterator<Item = f32> {
    words.iter().map(|&word| f32::from_bits(word))
}

fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    bench: &Bench,
    name: &str,
    throughput: Throughput,
    record: impl Fn(&mut Recorder<'_>) -> Result<()>,
) {
    group.throughput(throughput);
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| bencher.iter(|| bench.run(&record)));
}

/// Times memory and arithmetic, for comparison with the other benches.
fn ceilings(criterion: &mut Criterion) {
    let Some(bench) = Bench::new() else {
        println!("skipped: no adapter");
        return;
    };
    println!("{}", bench.device.adapter());
    let mut group = criterion.benchmark_group("ceilings");
    let values = numbers(1 << 20, 0);
    let bytes = Throughput::Bytes(4 << 20);
    let (from, to) = (bench.filled(&values), bench.buffer(4 << 20));

    let params = copy::Params { vectors: 1 << 18 };
    let grid = [params.vectors.div_ceil(256 * copy::VECTORS_AN_INVOCATION), 1];
    let record = |recorder: &mut Recorder<'_>| {
        let slices = [BufferSlice::all(&from), BufferSlice::all(&to)];
        recorder.dispatch(&copy::KERNEL, ElementKind::F32, &[], &params, &slices, grid)
    };
    bench.run(record);
    assert!(floats(&bench.read(&to)).eq(values.iter().copied()), "a copy");
    time(&mut group, &bench, "copy", Throughput::Bytes(8 << 20), record);

    let params = read_vectors::Params { vectors: 1 << 18 };
    let grid = [params.vectors.div_ceil(read_vectors::VECTORS_A_WORKGROUP), 1];
    let sums = bench.buffer((grid[0] * read_vectors::SUMS_A_WORKGROUP * 4) as usize);
    let record = |recorder: &mut Recorder<'_>| {
        let slices = [BufferSlice::all(&from), BufferSlice::all(&sums)];
        recorder.dispatch(&read_vectors::KERNEL, ElementKind::F32, &[], &params, &slices, grid)
    };
    bench.run(record);
    let total: f64 = floats(&bench.read(&sums)).map(f64::from).sum();
    assert_eq!(total, values.iter().map(|&value| f64::from(value)).sum::<f64>(), "all numbers are read");
    time(&mut group, &bench, "read", bytes, record);

    let params = multiply_add::Params { turns: 16, factor: 0.5 };
    let sums = bench.buffer(64 * 256 * 16);
    let record = |recorder: &mut Recorder<'_>| {
        let slices = [BufferSlice::all(&sums)];
        recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, [64, 1])
    };
    bench.run(record);
    let want = multiply_add::reference(0, &params) as f32;
    let found = floats(&bench.read(&sums)).next().expect("a sum");
    assert!((found - want).abs() <= 1e-4 * want.abs(), "{found} instead of {want}");
    let flops = 64 * 256 * u64::from(params.turns) * multiply_add::FLOPS_A_TURN;
    time(&mut group, &bench, "multiply_add", Throughput::Elements(flops), record);
    group.finish();
}

fn distances(criterion: &mut Criterion) {
    let Some(bench) = Bench::new() else { return };
    let mut group = criterion.benchmark_group("distances");
    let (dim, rows, count) = (64, 4096, 8);
    let (row_values, query_values) = (numbers(rows * dim, 1), numbers(count * dim, 2));
    let (row_buffer, query_buffer) = (bench.filled(&row_values), bench.filled(&query_values));
    let results = bench.buffer(rows * count * 4);
    let pairs = |metric| Pairs {
        metric,
        unit_vectors: false,
        output: Output::Distance,
        queries: BufferSlice::all(&query_buffer),
        query_count: count as u32,
        query_stride: dim as u32,
        rows: BufferSlice::all(&row_buffer),
        row_count: rows as u32,
        row_stride: dim as u32,
        dim: dim as u32,
        distances: BufferSlice::all(&results),
        distance_stride: rows as u32,
    };
    for metric in [Metric::L2Squared, Metric::InnerProduct] {
        let record = |recorder: &mut Recorder<'_>| recorder.distances(&pairs(metric));
        bench.run(record);
        let found: Vec<f32> = floats(&bench.read(&results)).collect();
        for (query, row) in [(0, 0), (1, 17), (7, 4095)] {
            let exact = metric.exact(&query_values[query * dim..][..dim], &row_values[row * dim..][..dim]);
            assert_eq!(f64::from(found[query * rows + row]), exact, "query {query}, row {row}");
        }
        let products = Throughput::Elements((rows * count * dim) as u64);
        time(&mut group, &bench, metric.name(), products, record);
    }
    group.finish();

    let mut group = criterion.benchmark_group("norms");
    let (found, refused) = (bench.buffer(rows * 8), bench.filled(&[f32::from_bits(u32::MAX); 2]));
    let record = |recorder: &mut Recorder<'_>| {
        let [rows_there, norms, refused] = [&row_buffer, &found, &refused].map(BufferSlice::all);
        recorder.norms(rows_there, ElementKind::F32, dim as u32 / 4, rows as u32, norms, refused)
    };
    bench.run(record);
    let squared: f32 = row_values[..dim].iter().map(|value| value * value).sum();
    assert_eq!(floats(&bench.read(&found)).next(), Some(squared), "the first squared norm");
    time(&mut group, &bench, norms::KERNEL.name(), Throughput::Bytes((rows * dim * 4) as u64), record);
    group.finish();
}

fn selections(criterion: &mut Criterion) {
    let Some(bench) = Bench::new() else { return };
    let mut group = criterion.benchmark_group(select_k::KERNEL.name());
    let (rows, length) = (16usize, 10_000usize);
    let values: Vec<f32> =
        (0..rows * length).map(|place| ((place * 2_654_435_761) >> 5 & 0xf_ffff) as f32).collect();
    let there = bench.filled(&values);
    for k in [10, 256] {
        let [keys, ids, counts] = [rows * k * 4, rows * k * 8, rows * 4].map(|bytes| bench.buffer(bytes));
        let record = |recorder: &mut Recorder<'_>| {
            recorder.select(&Select {
                keys: BufferSlice::all(&there),
                ids: None,
                floats: true,
                rows: Rows::Equal { length: length as u32, pitch: length as u32 },
                count: rows as u32,
                k: k as u32,
                selected: Selected { keys: BufferSlice::all(&keys), ids: BufferSlice::all(&ids) },
                selected_pitch: k as u32,
                selected_counts: BufferSlice::all(&counts),
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
        time(&mut group, &bench, &format!("k {k}"), bytes, record);
    }
    group.finish();

    let mut group = criterion.benchmark_group(prefix_sum::KERNEL.name());
    let count = 10_000u32;
    let counts: Vec<f32> = (0..count).map(|place| f32::from_bits(place % 7)).collect();
    let (counts, offsets) = (bench.filled(&counts), bench.buffer(count as usize * 4 + 4));
    let record = |recorder: &mut Recorder<'_>| {
        recorder.prefix_sum(BufferSlice::all(&counts), count, u32::MAX, BufferSlice::all(&offsets))
    };
    bench.run(record);
    let sum = (0..count).map(|place| place % 7).sum::<u32>();
    assert_eq!(bench.read(&offsets).last(), Some(&sum), "the sum of all counts");
    time(&mut group, &bench, "10000", Throughput::Elements(count.into()), record);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = ceilings, distances, selections
}
criterion_main!(benches);
