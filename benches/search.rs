//! `cargo bench --bench search`: one bench per operation, in sizes that suit a software adapter. Answers are checked before
//! timing; under `cargo test --benches` each bench runs once. `nearfield-bench` gives the published figures.

#![expect(missing_docs, reason = "criterion's macro makes public functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearfield::{Device, Flat, Ivf, KMeans, MatrixView, Metric, Output};

/// Vectors of small integers, so that squared distances are exact.
fn vectors(count: usize, dim: usize, seed: usize) -> Vec<f32> {
    (0..count * dim).map(|place| (((place + seed) * 2_654_435_761) >> 7 & 15) as f32 - 8.0).collect()
}

/// Times one call in a group of its own.
fn time<T>(criterion: &mut Criterion, group: &str, id: BenchmarkId, work: Throughput, call: impl Fn() -> T) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(work);
    group.bench_function(id, |bencher| bencher.iter(&call));
    group.finish();
}

/// An index of these rows, searched exhaustively.
fn exact(device: &Device, rows: MatrixView<'_, f32>) -> Flat {
    let mut index = Flat::builder(device, Metric::L2Squared, rows.dim()).build().expect("an index");
    index.add(rows).expect("rows fit");
    index
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
    let index = exact(&device, view);
    for count in [1, 64] {
        let queries = vectors(count, dim, 12_345);
        let queries = MatrixView::new(&queries, dim).expect("whole queries");
        let found = index.search(queries, 10).expect("an answer");
        let nearest = (0..rows)
            .map(|row| Metric::L2Squared.exact(queries.row(0), view.row(row)))
            .fold(f64::INFINITY, f64::min);
        assert_eq!(f64::from(found.row(0)[0].distance), nearest, "the nearest row is found");
        let (id, work) = (BenchmarkId::new("queries", count), Throughput::Elements(count as u64));
        time(criterion, "flat_search", id, work, || index.search(queries, 10).expect("an answer"));
    }

    let queries = vectors(16, dim, 12_345);
    let queries = MatrixView::new(&queries, dim).expect("whole queries");
    let nearest = index.search(queries, 20).expect("an answer");
    let radius = nearest.row(0)[19].distance;
    let found = index.search_within(queries, radius).expect("an answer");
    let nearer = nearest.row(0).iter().filter(|hit| hit.distance < radius).count();
    assert!(found.row(0).len() >= nearer, "all rows that a search finds nearer");
    let (id, work) = (BenchmarkId::new("queries", 16), Throughput::Elements(16));
    time(criterion, "search_within", id, work, || index.search_within(queries, radius).expect("an answer"));
}

fn top_k(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    let (rows, columns) = (16, 20_000);
    let values = vectors(rows, columns, 7);
    let view = MatrixView::new(&values, columns).expect("whole rows");
    for k in [10, 2048] {
        let smallest = device.top_k(view, k).expect("an answer");
        let mut sorted: Vec<f32> = view.row(0).to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let found: Vec<f32> = smallest.row(0).iter().map(|hit| hit.distance).collect();
        assert_eq!(found, sorted[..k], "the smallest values are selected");
        let (id, work) = (BenchmarkId::new("k", k), Throughput::Bytes((rows * columns * 4) as u64));
        time(criterion, "top_k", id, work, || device.top_k(view, k).expect("an answer"));
    }
}

fn lists(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    let (rows, dim, lists) = (10_000, 32, 64);
    let values = vectors(rows, dim, 3);
    let view = MatrixView::new(&values, dim).expect("whole rows");
    let train =
        || KMeans::new(Metric::L2Squared, lists).iterations(3).train(&device, view).expect("clusters");
    assert_eq!(train().centroids.len(), lists * dim, "as many centroids as lists");
    let (id, work) = (BenchmarkId::new("lists", lists), Throughput::Elements(rows as u64));
    time(criterion, "kmeans", id, work, train);

    let builder = Ivf::builder(&device, Metric::L2Squared, dim).lists(lists);
    let mut index = builder.train(view).expect("an index");
    index.add(view).expect("rows fit");
    let exact = exact(&device, view);
    let queries = vectors(64, dim, 12_345);
    let queries = MatrixView::new(&queries, dim).expect("whole queries");
    let found = index.search(queries, 10, lists).expect("an answer");
    assert_eq!(found, exact.search(queries, 10).expect("an answer"), "all lists hold the exact answer");
    for probes in [1, 8] {
        let (id, work) = (BenchmarkId::new("probes", probes), Throughput::Elements(64));
        time(criterion, "ivf_search", id, work, || index.search(queries, 10, probes).expect("an answer"));
    }
}

fn distances(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    let (rows, count, dim) = (4096, 16, 64);
    let (row_values, query_values) = (vectors(rows, dim, 0), vectors(count, dim, 5));
    let row_view = MatrixView::new(&row_values, dim).expect("whole rows");
    let query_view = MatrixView::new(&query_values, dim).expect("whole queries");
    let there = device.upload(row_view).expect("rows fit");
    let queries = device.upload(query_view).expect("queries fit");
    let compute = || {
        let distances = device.distances(&queries, &there, Metric::L2Squared, Output::Distance);
        device.read(&distances.expect("distances")).expect("an answer")
    };
    let exact = Metric::L2Squared.exact(query_view.row(3), row_view.row(77));
    assert_eq!(f64::from(compute()[3 * rows + 77]), exact, "a distance");
    let (id, work) = (BenchmarkId::new("queries", count), Throughput::Elements((rows * count) as u64));
    time(criterion, "distances", id, work, compute);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = search, top_k, lists, distances
}
criterion_main!(benches);
