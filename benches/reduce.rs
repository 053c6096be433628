//! `cargo bench --bench reduce`: every kind of reduction of values on the device, in sizes that suit a software adapter.
//! Answers are checked before timing; under `cargo test --benches` each bench runs once. `nearfield-bench reduce` gives the
//! published figures.

#![expect(missing_docs, reason = "criterion's macro makes public functions")]

use std::fmt::Debug;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearfield::internals::kernels::reduce_blocks::{Operation, reference};
use nearfield::internals::ladder::RUNGS;
use nearfield::{Device, DeviceVector, Error, MatrixView, Result, Summation};

/// One length for a workgroup or two, and one that keeps a device busy.
const LENGTHS: [usize; 2] = [1 << 12, 1 << 20];
const ROWS: usize = 1 << 10;
const COLUMNS: usize = 1 << 10;

/// Integers from -2 to 1: sums of a million products are exact in f32, in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|place| (((place + seed) * 2_654_435_761) >> 7 & 3) as f32 - 2.0).collect()
}

/// Checks an answer, then times it.
fn check_and_time<T: PartialEq + Debug>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    bytes: usize,
    wanted: &T,
    answer: impl Fn() -> Result<T>,
) {
    assert_eq!(&answer().expect("an answer"), wanted, "a wrong answer");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function(id, |bencher| bencher.iter(|| answer().expect("an answer")));
}

/// The value and the index that a reduction must return.
fn truth(operation: Operation, values: &[f32], others: &[f32]) -> (f32, u64) {
    let (value, place) = reference(operation, values, others).expect("a number");
    (value as f32, place.unwrap_or(0) as u64)
}

/// Returns the same values on the host and on the device.
fn on_device(device: &Device, length: usize, seed: usize) -> (Vec<f32>, DeviceVector) {
    let values = numbers(length, seed);
    let uploaded = device.upload_vector(&values).expect("a vector");
    (values, uploaded)
}

fn vectors(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else {
        println!("skipped: no adapter");
        return;
    };
    println!("{}", device.adapter());
    let plain = device.reduce();
    let compensated = device.reduce().summation(Summation::Compensated);
    let operands = LENGTHS.map(|length| (on_device(&device, length, 0), on_device(&device, length, 12_345)));

    for (name, reduce) in [("plain", plain), ("compensated", compensated)] {
        let mut group = criterion.benchmark_group(name);
        for ((a, a_device), (b, b_device)) in &operands {
            let wanted = truth(Operation::Dot, a, b).0;
            let id = BenchmarkId::new("dot", a.len());
            check_and_time(&mut group, id, 8 * a.len(), &wanted, || reduce.dot(a_device, b_device));
            let wanted = truth(Operation::Sum, a, &[]).0;
            let id = BenchmarkId::new("sum", a.len());
            check_and_time(&mut group, id, 4 * a.len(), &wanted, || reduce.sum(a_device));
        }
        group.finish();
    }

    let mut group = criterion.benchmark_group("extremes");
    for ((a, a_device), _) in &operands {
        let wanted = truth(Operation::Min, a, &[]).0;
        let id = BenchmarkId::new("min", a.len());
        check_and_time(&mut group, id, 4 * a.len(), &wanted, || plain.min(a_device));
        // The smallest value occurs once, past the middle.
        let mut values = a.clone();
        values[a.len() / 2 + 7] = -3.0;
        let a_device = device.upload_vector(&values).expect("a vector");
        let wanted = truth(Operation::ArgMin, &values, &[]).1;
        let id = BenchmarkId::new("argmin", a.len());
        check_and_time(&mut group, id, 4 * a.len(), &wanted, || plain.argmin(&a_device));
    }
    group.finish();
}

fn rows(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    let values = numbers(ROWS * COLUMNS, 7);
    let view = MatrixView::new(&values, COLUMNS).expect("whole rows");
    let matrix = device.upload(view).expect("a matrix");
    let truths = |operation| (0..ROWS).map(move |row| truth(operation, view.row(row), &[]));

    let mut group = criterion.benchmark_group("rows");
    let id = |name| BenchmarkId::new(name, format!("{ROWS}x{COLUMNS}"));
    let wanted: Vec<f32> = truths(Operation::Sum).map(|(sum, _)| sum).collect();
    check_and_time(&mut group, id("sum"), 4 * values.len(), &wanted, || device.reduce().sum_rows(&matrix));
    let wanted: Vec<u64> = truths(Operation::ArgMin).map(|(_, place)| place).collect();
    let argmin = || device.reduce().argmin_rows(&matrix);
    check_and_time(&mut group, id("argmin"), 4 * values.len(), &wanted, argmin);
    group.finish();
}

fn ladder(criterion: &mut Criterion) {
    let Ok(device) = Device::best() else { return };
    // A short vector, because the lowest rungs are slow.
    let length = 1 << 16;
    let ((a, a_device), (b, b_device)) = (on_device(&device, length, 0), on_device(&device, length, 12_345));
    let wanted = truth(Operation::Dot, &a, &b).0;
    let mut group = criterion.benchmark_group("ladder");
    for rung in RUNGS {
        let dot = || rung.dot(&device, &a_device, &b_device, None);
        if let Err(Error::Unsupported { needed, .. }) = dot() {
            println!("skipped: rung {} needs {needed}", rung.letter);
            continue;
        }
        let id = BenchmarkId::new(rung.letter, rung.name);
        check_and_time(&mut group, id, 8 * length, &wanted, dot);
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = vectors, rows, ladder
}
criterion_main!(benches);
