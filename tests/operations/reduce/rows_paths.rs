//! A row reduction gives the same bits on every path: batches, staging memory, bindings, and budgets down to the smallest.

use crate::common::reduce::{Call, distances, run_rows};
use crate::common::{confined, gpu, with_bindings_of, without_subgroups};
use nearfield::{Device, Error, Metric, Output, Result, ValueRows};
use nearfield_testing::{Random, rounded, view};

/// The bits of sums of rows, and the places of their extremes.
fn bits(device: &Device, rows: ValueRows<'_>) -> Vec<Vec<u64>> {
    let mut all = vec![];
    for call in [Call::Dot, Call::Sum, Call::L2, Call::Deviation, Call::Max, Call::ArgMin] {
        for &summation in call.summations() {
            let found = run_rows(device, call, summation, rows, rows).expect("results");
            all.push(found.into_iter().map(f64::to_bits).collect());
        }
    }
    all
}

/// Rows on the host, of either element type, give the same bits on both devices.
fn check_rows(whole: &Device, small: &Device, values: &[f32], length: usize) {
    let (rows, halves) = (view(values, length), rounded(values).0);
    let halves = view(&halves, length);
    assert_eq!(bits(small, rows.into()), bits(whole, rows.into()), "{length}");
    assert_eq!(bits(small, halves.into()), bits(whole, halves.into()), "{length}, f16");
}

#[test]
fn rows_in_batches_give_the_bits_of_all_at_once() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(0xba7c);
    // At most 50 and 160 rows at a time, 4, 1, and down to the smallest budgets.
    for (budget, shapes) in [
        (24_000, &[(1000, 17), (700, 5)][..]),
        (100_000, &[(21, 4097)]),
        (300_000, &[(4, 40_001)]),
        (36_000, &[(5, 999)]),
        (19_000, &[(5, 999)]),
        (10_000, &[(5, 999)]),
    ] {
        let small = confined(u64::MAX, budget).expect("the adapter is there");
        for &(count, length) in shapes {
            check_rows(device, &small, &random.floats(count * length), length);
        }
    }
}

#[test]
fn rows_on_the_device_in_batches_give_the_bits_of_all_at_once() {
    let (Some(device), Some(small)) = (gpu(), confined(u64::MAX, 20_000)) else { return };
    // 1536 bytes for 76 results of short rows, 48 of rows in two blocks, 17 of rows in ten.
    for (queries, rows) in [(1000, 17), (100, 4095), (50, 4097), (18, 40_003)] {
        let values = Random::new(0xd17).floats(queries * rows);
        let [whole, again] =
            [device, &small].map(|device| device.upload(view(&values, rows)).expect("a matrix"));
        assert_eq!(bits(&small, (&again).into()), bits(device, (&whole).into()), "{queries} of {rows}");
        // The same numbers on both devices.
        let (whole, _) = distances(device, &mut Random::new(0xd16), queries, rows);
        let (again, _) = distances(&small, &mut Random::new(0xd16), queries, rows);
        assert_eq!(bits(&small, (&again).into()), bits(device, (&whole).into()), "{queries} of {rows}");
    }
}

#[test]
fn rows_longer_than_the_staging_memory_or_a_binding_give_the_same_bits() {
    let (Some(device), Some(small)) = (gpu(), confined(u64::MAX, 100_000)) else { return };
    let values = Random::new(0x1049).floats(3 * 70_001);
    check_rows(device, &small, &values, 70_001);
    let (plain, quantize) = (without_subgroups().expect("a device"), with_bindings_of(1 << 17).expect("one"));
    check_rows(plain, &quantize, &values, 70_001);
}

/// A reduction of numbers, or of two rows of them.
type Reduction = fn(&Device, &[f32]) -> Result<f64>;

const REDUCTIONS: [(&str, Reduction); 9] = [
    ("sum", |device, values| device.reduce().sum(values).map(f64::from)),
    ("sum on the device", |device, values| {
        device.reduce().sum(&device.upload_vector(values)?).map(f64::from)
    }),
    ("dot", |device, values| device.reduce().dot(values, values).map(f64::from)),
    ("argmax on the device", |device, values| {
        device.reduce().argmax(&device.upload_vector(values)?).map(|place| place as f64)
    }),
    ("standard deviation", |device, values| device.reduce().standard_deviation(values).map(f64::from)),
    ("standard deviations of rows", |device, values| {
        device.reduce().standard_deviation_rows(view(values, values.len() / 2)).map(|all| all[1].into())
    }),
    ("rows", |device, values| {
        device.reduce().argmax_rows(view(values, values.len() / 2)).map(|places| places[1] as f64)
    }),
    ("rows on the device", |device, values| {
        let matrix = device.upload(view(values, values.len() / 2))?;
        device.reduce().argmax_rows(&matrix).map(|places| places[1] as f64)
    }),
    ("distances", |device, values| {
        let (ones, columns) = (device.upload(view(&[1.0f32, 1.0], 1))?, device.upload(view(values, 1))?);
        let distances = device.distances(&ones, &columns, Metric::InnerProduct, Output::Similarity)?;
        device.reduce().argmax_rows(&distances).map(|places| places[1] as f64)
    }),
];

#[test]
fn a_budget_too_small_is_an_error_that_says_what_is_enough() {
    let Some(device) = gpu() else { return };
    for (name, reduction) in REDUCTIONS {
        for length in [10, 18_000, 100_000] {
            let said = format!("{name} of {length}");
            let values: Vec<f32> = (0..length).map(|place| (place % 7) as f32).collect();
            let within = |budget| reduction(&confined(u64::MAX, budget).expect("the adapter"), &values);
            let error = within(1).expect_err("a budget of one byte");
            let Error::Budget { needed, budget: 1, .. } = error else { panic!("{said}: {error}") };
            let error = within(needed - 1).expect_err("a byte is missing");
            let Error::Budget { needed: again, .. } = error else { panic!("{said}: {error}") };
            assert_eq!(again, needed, "{said}");
            assert_eq!(within(needed).expect(&said), reduction(device, &values).expect(&said), "{said}");
        }
    }
}
