//! Bad input gets an error that names it, and leaves the index as it was.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::{confined, gpu};
use crate::support::{flat, run_within};
use half::f16;
use nearfield::{
    AddOptions, Device, ElementKind, Error, Flat, MatrixView, Metric, Neighbors, Output, Quantization,
    Residency, SearchOptions,
};
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

const DIM: usize = 3;

/// Ten rows with insertion numbers.
fn ten(device: &Device, metric: Metric) -> Flat {
    let rows: Vec<f32> = (0..10 * DIM).map(|i| (i as f32 * 0.7).sin()).collect();
    flat(device, metric, view(&rows, DIM), Quantization::None)
}

fn answer(index: &Flat) -> Neighbors {
    index.search(view(&[0.5f32, -0.25, 0.125], DIM), 20).expect("an answer")
}

/// Does something that is refused: the index is as before, and takes a good row afterwards.
fn refused(index: &mut Flat, refuse: impl FnOnce(&mut Flat) -> Result<(), Error>) -> Error {
    let (before, len) = (answer(index), index.len());
    let error = refuse(index).expect_err("this is refused");
    assert_eq!(index.len(), len);
    assert_eq!(answer(index), before, "after {error}");
    index
        .add_with(view(&[9.0f32, 9.0, 9.0], DIM), &AddOptions::new().ids(&[1 << 40 | len as u64]))
        .expect("a good row after a bad one");
    assert!(index.contains(1 << 40 | len as u64));
    assert_eq!(answer(index).row(0).len(), len + 1);
    error
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let Some(device) = gpu() else { return };
    let mut index = ten(device, Metric::L2);
    let error = refused(&mut index, |index| index.add(view(&[1.0f32; 8], 4)));
    assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    let (one, wide) = (view(&[1.0f32; 3], DIM), view(&[1.0f32; 8], 4));
    let empty = Flat::builder(device, Metric::L2, DIM).build().expect("an index");
    let [rows, uploaded] = [one, wide].map(|vectors| device.upload(vectors).expect("good vectors"));
    let similarity = |metric| device.distances(&rows, &rows, metric, Output::Similarity).map(drop);
    let errors = [
        ("dim", MatrixView::new(&[1.0f32], 0).map(drop)),
        ("values", MatrixView::new(&[1.0f32; 7], 3).map(drop)),
        ("queries", index.search(wide, 1).map(drop)),
        ("queries", index.search(&uploaded, 1).map(drop)),
        ("queries", device.distances(&uploaded, &rows, Metric::L2, Output::Distance).map(drop)),
        ("k", index.search(one, 0).map(drop)),
        ("k", index.plan(1, 0).map(drop)),
        ("k", device.top_k(one, 0).map(drop)),
        ("k", empty.search(one, 0).map(drop)),
        ("probes", index.search_with(one, &SearchOptions::new(1).probes(4)).map(drop)),
        ("output", similarity(Metric::L2)),
        ("output", similarity(Metric::L2Squared)),
    ];
    for (wanted, error) in errors {
        let error = error.expect_err(wanted);
        assert!(matches!(error, Error::Argument { argument, .. } if argument == wanted), "{wanted}: {error}");
        let numbers = match wanted {
            "values" => ["dim = 3", "7"],
            "queries" => ["3", "4"],
            _ => continue,
        };
        assert!(numbers.iter().all(|number| error.to_string().contains(number)), "{error}");
    }
}

#[test]
fn rows_that_are_not_finite_are_refused_by_their_number() {
    let Some(device) = gpu() else { return };
    let values = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for (bad, (count, at)) in values.into_iter().zip([(1, 0), (20, 19), (700, 130), (700, 699)]) {
        let mut index = ten(device, Metric::Cosine);
        let mut rows = vec![1.0; count * DIM];
        rows[at * DIM + at % DIM] = bad;
        let error = refused(&mut index, |index| index.add(view(&rows, DIM)));
        assert!(matches!(error, Error::NotFinite { argument: "rows", row } if row == at as u64), "{error}");
    }
    let mut rows = vec![f16::ONE; 40 * DIM];
    rows[33 * DIM] = f16::NEG_INFINITY;
    let error = refused(&mut ten(device, Metric::L2), |index| index.add(view(&rows, DIM)));
    assert!(matches!(error, Error::NotFinite { row: 33, .. }), "{error}");
}

#[test]
fn bad_queries_are_refused_by_their_number_in_every_batch() {
    let Some(device) = gpu() else { return };
    // No two rows alike: equal ones would overflow the lists of candidates.
    let rows: Vec<f32> = (0..5000 * DIM).map(|i| (i as f32).sin()).collect();
    let large = flat(device, Metric::L2, view(&rows, DIM), Quantization::None);
    for index in [&ten(device, Metric::L2), &large] {
        let before = answer(index);
        // A software adapter takes 256 queries a batch on the screening path.
        for (count, at, bad) in [
            (1, 0, f32::NAN),
            (17, 16, f32::INFINITY),
            (17, 16, 1e-30),
            (17, 16, 3e15),
            (600, 255, f32::INFINITY),
            (600, 257, f32::NAN),
            (600, 599, 1e-30),
        ] {
            let mut queries = vec![1.0; count * DIM];
            queries[at * DIM..][..DIM].fill(0.0);
            queries[at * DIM + 1] = bad;
            let error = index.search(view(&queries, DIM), 4).expect_err("a bad query");
            let named = match error {
                Error::NotFinite { argument: "queries", row } => !bad.is_finite() && row == at as u64,
                Error::NormOutOfRange { argument: "queries", row } => bad.is_finite() && row == at as u64,
                _ => false,
            };
            assert!(named, "{bad} in query {at} of {count}: {error}");
        }
        assert_eq!(answer(index), before);
    }
    let error = device.upload(view(&[1.0, f32::NAN], 1)).expect_err("not finite");
    assert!(matches!(error, Error::NotFinite { row: 1, .. }), "{error}");
}

#[test]
fn norms_out_of_range_are_refused_by_the_row() {
    let Some(device) = gpu() else { return };
    let edge = 2f32.powi(50);
    let bad = [1.01 / edge / 2.0, 1e-45, f32::MIN_POSITIVE, edge * 1.01, f32::MAX];
    for (bad, metric) in bad.into_iter().zip(Metric::ALL.into_iter().cycle()) {
        let mut rows = vec![1.0; 8 * DIM];
        rows[5 * DIM..6 * DIM].copy_from_slice(&[0.0, -bad, 0.0]);
        let error = refused(&mut ten(device, metric), |index| index.add(view(&rows, DIM)));
        assert!(matches!(error, Error::NormOutOfRange { argument: "rows", row: 5 }), "{bad:e}: {error}");
    }
    for metric in Metric::ALL {
        let mut index = ten(device, metric);
        index
            .add(view(&[edge, 0.0, 0.0, 0.0, 1.0 / edge, 0.0, 0.0, -0.0, 0.0], DIM))
            .expect("norms in range");
        assert_eq!(index.len(), 13);
    }
}

#[test]
fn repeated_ids_are_refused() {
    let Some(device) = gpu() else { return };
    let two = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let add = |ids: &'static [u64]| {
        move |index: &mut Flat| index.add_with(view(&two, DIM), &AddOptions::new().ids(ids))
    };
    let mut index = ten(device, Metric::L2);
    for (ids, repeated) in [(&[77, 77], 77), (&[50, 3], 3), (&[0, 50], 0)] as [(&'static [u64], u64); 3] {
        let error = refused(&mut index, add(ids));
        assert!(matches!(error, Error::DuplicateId { id } if id == repeated), "{ids:?}: {error}");
    }
    index.add_with(view(&two, DIM), &AddOptions::new().ids(&[500, 1 << 62])).expect("new ids");
    let error = refused(&mut index, add(&[1 << 62, 4]));
    assert!(matches!(error, Error::DuplicateId { id } if id == 1 << 62 || id == 4), "{error}");
}

#[test]
fn ids_that_are_too_large_or_too_few_are_refused() {
    let Some(device) = gpu() else { return };
    let two = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut index = ten(device, Metric::L2);
    for id in [1 << 63, u64::MAX] {
        let error =
            refused(&mut index, |index| index.add_with(view(&two, DIM), &AddOptions::new().ids(&[20, id])));
        assert!(matches!(error, Error::IdTooLarge { id: named } if named == id), "{error}");
    }
    for ids in [&[][..], &[20], &[20, 21, 22]] {
        let error = refused(&mut index, |index| index.add_with(view(&two, DIM), &AddOptions::new().ids(ids)));
        assert!(matches!(error, Error::Argument { argument: "ids", .. }), "{error}");
        assert!(error.to_string().contains('2'), "{error}");
    }
    index.add_with(view(&two, DIM), &AddOptions::new().ids(&[(1 << 63) - 1, 20])).expect("the largest id");
    assert!(index.contains((1 << 63) - 1) && !index.contains(21));
}

#[test]
fn f32_rows_are_refused_where_f16_is_stored() {
    let Some(device) = gpu() else { return };
    let mut index =
        Flat::builder(device, Metric::L2, DIM).elements(ElementKind::F16).build().expect("an index");
    let error = index.add(view(&[1.0f32; 6], DIM)).expect_err("f32 rows");
    assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    assert!(index.is_empty());
    index.add(view(&rounded(&[1.0; 6]).0, DIM)).expect("f16 rows");
    assert_eq!(index.search(view(&[1.0f32; 3], DIM), 5).expect("an answer").row(0).len(), 2);
}

#[test]
fn a_budget_that_is_too_small_says_what_is_needed() {
    let Some(device) = gpu() else { return };
    let rows = vec![1.0f32; 5000 * DIM];
    let mut index = Flat::builder(device, Metric::L2, DIM).budget(30_000).build().expect("an index");
    index.add(view(&rows, DIM)).expect("good rows");
    for found in [index.search(view(&[1.0f32; 3], DIM), 4000).map(drop), index.plan(1, 4000).map(drop)] {
        let error = found.expect_err("no budget for 4,000");
        assert!(matches!(error, Error::Budget { needed, budget: 30_000, .. } if needed > 30_000), "{error}");
        assert!(error.to_string().contains("30000 bytes"), "{error}");
    }
    let whole = device.options().budget_bytes;
    let error =
        Flat::builder(device, Metric::L2, DIM).budget(whole + 1).build().expect_err("more than there is");
    assert!(
        matches!(error, Error::Budget { needed, budget, .. } if needed == whole + 1 && budget == whole),
        "{error}"
    );
    // A row that is staged is scratch memory; on the host it stays where it is.
    let Some(small) = confined(u64::MAX, 26_000) else { return };
    let error = small.top_k(view(&[1.0f32; 10_000], 10_000), 3).expect_err("a row is larger than the budget");
    assert!(matches!(error, Error::Budget { needed, budget: 26_000, .. } if needed > 40_000), "{error}");
}

#[test_matrix([Adapter, Host], [Quantization::None, Quantization::Int8], [Residency::Device])]
#[test_matrix([Adapter], [Quantization::Int8], [Residency::Host])]
fn what_a_budget_error_needs_is_enough(engine: Engine, quantization: Quantization, place: Residency) {
    let Some(device) = engine.device() else { return };
    for (count, dim, k) in [(3000, 3, 1), (3000, 3, 100), (3000, 40, 1000), (20, 4096, 5)] {
        let values = Random::new(10).floats(count * dim);
        let rows = view(&values, dim);
        let searched = |budget: u64| {
            let builder = Flat::builder(device, Metric::L2, dim).quantization(quantization).residency(place);
            let mut index = builder.budget(budget).build()?;
            index.add(rows)?;
            index.search(rows.slice(0..5), k)
        };
        let (found, enough) = run_within(1, 4, searched);
        assert_eq!(found, searched(1 << 28).expect("more than enough"), "{count} rows, dim {dim}, k {k}");
        assert!(engine == Adapter || searched(enough - 1).is_err(), "{count} rows, dim {dim}, k {k}");
    }
}

#[test]
fn a_dim_whose_block_of_rows_exceeds_a_segment_is_refused() {
    let Some(device) = confined(10_000, 1 << 20) else { return };
    let error = Flat::builder(&device, Metric::L2, 20).build().expect_err("128 rows of 80 bytes");
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("10240") && error.to_string().contains("10000"), "{error}");
}

#[test]
#[ignore = "takes all memory of the device; run it alone, on a card of your own"]
fn without_memory_an_add_is_refused_and_the_index_answers_as_before() {
    let Some(device) = confined(u64::MAX, 1 << 26) else { return };
    let dim = 1024;
    let rows: Vec<f32> = (0..8192 * dim).map(|i| (i as f32).sin()).collect();
    let mut index = flat(&device, Metric::L2, view(&rows, dim), Quantization::None);
    let before = index.search(view(&rows[..dim], dim), 3).expect("an answer");
    let mut hog = vec![];
    for bytes in [2u64 << 30, 1 << 28, 1 << 25, 1 << 22] {
        loop {
            let scope = device.wgpu_device().expect("a GPU").push_error_scope(wgpu::ErrorFilter::OutOfMemory);
            let buffer = device.wgpu_device().expect("a GPU").create_buffer(&wgpu::BufferDescriptor {
                label: Some("hog"),
                size: bytes.min(device.capabilities().max_buffer_bytes),
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            });
            if pollster::block_on(scope.pop()).is_some() {
                break;
            }
            hog.push(buffer);
        }
    }
    println!("{} buffers took all there was", hog.len());
    let error = index.add(view(&rows, dim)).expect_err("no memory is left");
    assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes > Some(1 << 25)), "{error:?}");
    assert_eq!(index.search(view(&rows[..dim], dim), 3).expect("an answer"), before);
    drop(hog);
    device
        .wgpu_device()
        .expect("a GPU")
        .poll(wgpu::PollType::wait_indefinitely())
        .expect("the device is there");
    index.add(view(&rows, dim)).expect("there is memory again");
    assert_eq!(index.len(), 2 * 8192);
}
