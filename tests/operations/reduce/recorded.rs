//! Reductions that the caller records give the library's own bits, and refuse what no kernel can do.

use crate::common::bench::Bench;
use crate::common::padded;
use crate::common::reduce::{Call, SUMMATIONS, Truth, run};
use nearfield::internals::kernels::reduce_blocks::{Operation, Reduce, Shape, Summation};
use nearfield::{BufferSlice, ElementKind, wgpu};
use nearfield_testing::Random;

/// The call of the library that an operation stands for.
fn call_of(operation: Operation) -> Call {
    match operation {
        Operation::Dot => Call::Dot,
        Operation::Sum => Call::Sum,
        Operation::SumAbs => Call::L1,
        Operation::SumSquares => Call::SumSquares,
        Operation::MaxAbs => Call::MaxNorm,
        Operation::Min => Call::Min,
        Operation::Max => Call::Max,
        Operation::ArgMin => Call::ArgMin,
        Operation::ArgMax => Call::ArgMax,
    }
}

/// One row of numbers, to be changed.
fn one_row<'b>(
    operation: Operation,
    values: &'b wgpu::Buffer,
    others: &'b wgpu::Buffer,
    length: u32,
    partials: BufferSlice<'b>,
) -> Reduce<'b> {
    let shape = Shape::of(length.into());
    Reduce {
        operation,
        summation: Summation::Plain,
        elements: ElementKind::F32,
        values: BufferSlice::all(values),
        others: Some(BufferSlice::all(others)),
        first: 0,
        stride: length,
        length,
        rows: 1,
        shape,
        first_block: 0,
        scale: 1.0,
        partials,
        pitch: length.div_ceil(shape.block() as u32),
    }
}

#[test]
fn recorded_reductions_give_the_bits_of_the_librarys_own() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0xd002);
    let (a, b) = (random.floats(10_001), random.floats(10_001));
    let (values, others) = (bench.input(&padded(&a, a.len())), bench.input(&padded(&b, b.len())));
    for operation in Operation::ALL {
        for summation in SUMMATIONS {
            let said = format!("{operation:?}, {summation:?}");
            let (partials, results, places) = (bench.output(2 * 3), bench.output(2), bench.output(1));
            let whole =
                Reduce { summation, ..one_row(operation, &values, &others, 10_001, partials.slice()) };
            bench.run(|recorder| {
                recorder.reduce(&whole)?;
                let rows = [1, whole.pitch];
                recorder.reduce_partials(operation, summation, rows, partials.slice(), results.slice())?;
                if operation.is_place() {
                    recorder.locate(&whole, results.slice(), places.slice())?;
                }
                Ok(())
            });
            let want =
                run(bench.device, call_of(operation), summation, (&a).into(), (&b).into()).expect("a result");
            let record = bench.read_records::<2>(&results)[0];
            let found = match operation.is_place() {
                true => {
                    let place = bench.read(&places)[0];
                    assert_eq!(u64::from(place) / whole.shape.block(), u64::from(record[1]), "{said}");
                    f64::from(place)
                }
                false => operation.value(record).expect("a number").into(),
            };
            assert_eq!(found, want, "{said}");

            let rows = bench.output(73);
            let short = Reduce { length: 136, stride: 137, rows: 73, partials: rows.slice(), ..whole };
            bench.run(|recorder| recorder.reduce_rows(&short));
            for (row, word) in bench.read(&rows).into_iter().enumerate() {
                let range = row * 137..row * 137 + 136;
                let truth = Truth::new(&a[range.clone()], &b[range]);
                let found = match operation.is_place() {
                    true => f64::from(word),
                    false => operation.value([word, 0]).expect("a number").into(),
                };
                truth.judge(call_of(operation), summation, Ok(found), &format!("row {row}"));
            }
        }
    }
}

/// Panics unless the recorder refuses a reduction of blocks and of rows with this beginning of an error.
fn refuses(bench: Bench<'_>, start: &str, reduce: &Reduce<'_>) {
    bench.refuses(start, |recorder| recorder.reduce(reduce));
    bench.refuses(start, |recorder| recorder.reduce_rows(reduce));
}

#[test]
fn layouts_that_no_kernel_has_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (values, partials) = (bench.input(&[1.0f32; 18]), bench.output(8));
    let good = one_row(Operation::Dot, &values, &values, 16, partials.slice());
    for (workgroup, coarsening, turns) in [(128, 4, 4), (256, 2, 4), (64, 8, 0)] {
        refuses(bench, "shape: ", &Reduce { shape: Shape { workgroup, coarsening, turns }, ..good });
    }
    refuses(bench, "others: ", &Reduce { others: None, ..good });
    let short = BufferSlice::range(&values, 0, 48);
    refuses(bench, "others: ", &Reduce { others: Some(short), ..good });
    // Number 17 is in no whole vector of four.
    for (first, length, rows) in [(0, 17, 1), (2, 15, 1), (0, 8, 3), (u32::MAX, 1, 1)] {
        refuses(bench, "values: ", &Reduce { first, length, rows, stride: length, ..good });
    }
    let slice = partials.slice();
    bench.refuses("operation: ", |recorder| recorder.locate(&good, slice, slice));
    bench.run(|recorder| recorder.reduce(&good));
    assert_eq!(bench.read_floats(&partials)[0], 16.0);
}

#[test]
fn buffers_that_do_not_hold_the_results_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (values, room) = (bench.input(&vec![1.0f32; 5 * 10_000]), bench.input(&[0u32; 2 * 5 * 3]));
    let good = Reduce {
        stride: 10_000,
        rows: 5,
        ..one_row(Operation::ArgMin, &values, &values, 10_000, BufferSlice::all(&room))
    };
    let short = |words: u64| BufferSlice::range(&room, 0, words * 4);
    let cut = |words| Reduce { partials: short(words), ..good };
    bench.refuses("partials: needed 120 bytes", |recorder| recorder.reduce(&cut(2 * 5 * 3 - 1)));
    bench.refuses("pitch: needed at least 3", |recorder| recorder.reduce(&Reduce { pitch: 2, ..good }));
    bench.refuses("partials: needed 20 bytes", |recorder| recorder.reduce_rows(&cut(4)));
    bench.refuses("results: needed 40 bytes", |recorder| recorder.locate(&good, short(9), short(5)));
    bench.refuses("places: needed 20 bytes", |recorder| recorder.locate(&good, short(10), short(4)));
    for (partials, results, start) in
        [(29, 10, "partials: needed 120 bytes"), (30, 9, "results: needed 40 bytes")]
    {
        let [partials, results] = [partials, results].map(short);
        bench.refuses(start, |recorder| {
            recorder.reduce_partials(good.operation, good.summation, [5, 3], partials, results)
        });
    }
}
