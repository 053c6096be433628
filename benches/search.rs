//! `cargo bench`: an operation each, small enough for a software adapter. Answers are checked before they are timed; under
//! `cargo test --benches` each runs once. Real figures come from `nearfield bench`.

#![expect(missing_docs, reason = "criterion's macro makes public functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearfield::{Device, Flat, MatrixView, Metric};

/// Vectors whose elements are small integers, so that squared distances are exact.
fn vectors(count: usize, dim: usize, seed: usize) -> Vec<f32> {
    (0..count * dim).map(|place| (((place + seed) * 2_654_435_761) >> 7 & 15) as f32 - 8.0).collect()
}

fn search(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else {
        println!("skipped: no adapter");
        return;
    };
    println!("{}", device.adapter());
    let (rows, dim) = (20_000, 64);
    let values = vectors(rows, dim, 0);
    let view = MatrixView::new(&values, dim).expect("whole rows");
    let mut index = Flat::builder(&device, Metric::L2Squared, dim).build().expect("an index");
    index.add(view).expect("rows fit");
    let mut group = criterion.benchmark_group("flat_search");
    for count in [1, 64] {
        let queries = vectors(count, dim, 12_345);
        let queries = MatrixView::new(&queries, dim).expect("whole queries");
        let found = index.search(queries, 10).expect("an answer");
        let nearest = (0..rows)
            .map(|row| Metric::L2Squared.exact(queries.row(0), view.row(row)))
            .fold(f64::INFINITY, f64::min);
        assert_eq!(f64::from(found.row(0)[0].distance), nearest, "the nearest row is found");
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("queries", count), |bencher| {
            bencher.iter(|| index.search(queries, 10).expect("an answer"));
        });
    }
    group.finish();
}

fn top_k(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    let (rows, columns) = (16, 20_000);
    let values = vectors(rows, columns, 7);
    let view = MatrixView::new(&values, columns).expect("whole rows");
    let mut group = criterion.benchmark_group("top_k");
    for k in [10, 2048] {
        let smallest = device.top_k(view, k).expect("an answer");
        let mut sorted: Vec<f32> = view.row(0).to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let found: Vec<f32> = smallest.row(0).iter().map(|hit| hit.distance).collect();
        assert_eq!(found, sorted[..k], "the smallest values are selected");
        group.throughput(Throughput::Bytes((rows * columns * 4) as u64));
        group.bench_function(BenchmarkId::new("k", k), |bencher| {
            bencher.iter(|| device.top_k(view, k).expect("an answer"));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = search, top_k
}
criterion_main!(benches);
