//! Reductions that the caller records give the library's own bits, and refuse what no kernel can do.

use crate::common::bench::Bench;
use crate::common::reduce::{Call, SUMMATIONS, Truth, run};
use crate::common::{Random, gpu, padded};
use nearfield::internals::kernels::reduce_blocks::{Operation, Reduce, Shape, Summation};
use nearfield::{BufferSlice, ElementKind, Error, wgpu};

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
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
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
                run(device, call_of(operation), summation, (&a).into(), (&b).into()).expect("a result");
            let record = bench.read(&results);
            let found = match operation.is_place() {
                true => {
                    let first = u64::from(record[1]) * whole.shape.block();
                    let place = bench.read(&places)[0];
                    assert_eq!(u64::from(place) / whole.shape.block(), first / whole.shape.block(), "{said}");
                    f64::from(place)
                }
                false => operation.value([record[0], record[1]]).expect("a number").into(),
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
                let judged = truth.judge_number(call_of(operation), summation, found);
                judged.unwrap_or_else(|fault| panic!("{said}, row {row}: {fault}"));
            }
        }
    }
}

/// What a recorder says about a reduction that it refuses.
fn refused(bench: Bench<'_>, reduce: &Reduce<'_>) -> String {
    let mut said = String::new();
    bench.run(|recorder| {
        let error = recorder.reduce(reduce).expect_err("it is refused");
        assert!(matches!(error, Error::Argument { .. }), "{error}");
        said = error.to_string();
        let error = recorder.reduce_rows(reduce).expect_err("it is refused");
        assert_eq!(error.to_string(), said);
        Ok(())
    });
    said
}

#[test]
fn layouts_that_no_kernel_has_are_refused() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let (values, partials) = (bench.input(&[1.0f32; 16]), bench.output(8));
    let good = one_row(Operation::Dot, &values, &values, 16, partials.slice());
    for (workgroup, coarsening, turns) in [(128, 4, 4), (256, 2, 4), (64, 8, 0)] {
        let said = refused(bench, &Reduce { shape: Shape { workgroup, coarsening, turns }, ..good });
        assert!(said.starts_with("shape: "), "{said}");
    }
    assert!(refused(bench, &Reduce { others: None, ..good }).starts_with("others: "));
    bench.run(|recorder| {
        let error =
            recorder.locate(&good, partials.slice(), partials.slice()).expect_err("a sum has no place");
        assert!(error.to_string().starts_with("operation: "), "{error}");
        recorder.reduce(&good)
    });
    assert_eq!(f32::from_bits(bench.read(&partials)[0]), 16.0);
}

#[test]
fn buffers_that_do_not_hold_the_rows_are_refused() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let (values, partials) = (bench.input(&[1.0f32; 18]), bench.output(8));
    let good = one_row(Operation::Dot, &values, &values, 16, partials.slice());
    // Number 17 is in no whole vector of four.
    for (first, length, rows) in [(0, 17, 1), (2, 15, 1), (0, 8, 3), (u32::MAX, 1, 1)] {
        let said = refused(bench, &Reduce { first, length, rows, stride: length, ..good });
        assert!(said.starts_with("values: "), "{first}, {length}, {rows}: {said}");
    }
    let short = BufferSlice::range(&values, 0, 48);
    assert!(refused(bench, &Reduce { others: Some(short), ..good }).starts_with("others: "));
}

#[test]
fn buffers_that_do_not_hold_the_results_are_refused() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let (values, room) = (bench.input(&vec![1.0f32; 5 * 10_000]), bench.input(&[0u32; 2 * 5 * 3]));
    let good = Reduce {
        length: 10_000,
        stride: 10_000,
        rows: 5,
        ..one_row(Operation::ArgMin, &values, &values, 10_000, BufferSlice::all(&room))
    };
    let short = |words: u64| BufferSlice::range(&room, 0, words * 4);
    bench.run(|recorder| {
        let refused = |result: nearfield::Result<()>, start: &str| {
            let said = result.expect_err("it is refused").to_string();
            assert!(said.starts_with(start), "{said}");
        };
        refused(
            recorder.reduce(&Reduce { partials: short(2 * 5 * 3 - 1), ..good }),
            "partials: needed 120 bytes",
        );
        refused(recorder.reduce(&Reduce { pitch: 2, ..good }), "pitch: needed at least 3");
        refused(recorder.reduce_rows(&Reduce { partials: short(4), ..good }), "partials: needed 20 bytes");
        refused(recorder.locate(&good, short(9), short(5)), "results: needed 40 bytes");
        refused(recorder.locate(&good, short(10), short(4)), "places: needed 20 bytes");
        let (operation, summation) = (good.operation, good.summation);
        let mut combine =
            |partials, results| recorder.reduce_partials(operation, summation, [5, 3], partials, results);
        refused(combine(short(29), short(10)), "partials: needed 120 bytes");
        refused(combine(short(30), short(9)), "results: needed 40 bytes");
        Ok(())
    });
}
