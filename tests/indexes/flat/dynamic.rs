//! Single changes of a `Flat`: rows added, removed and updated. `living.rs` tests long sequences of changes.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::{confined, gpu, has_kernels};
use crate::support::flat_with_ids;
use nearfield::internals::ceilings::copy;
use nearfield::{
    AddOptions, BufferSlice, Device, ElementKind, Error, Flat, Index, Ivf, Metric, Quantization, Route,
    SearchOptions,
};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 6;

fn empty(device: &Device, quantization: Quantization) -> Flat {
    Flat::builder(device, Metric::L2Squared, DIM).quantization(quantization).build().expect("an index")
}

/// The row that was given with an insertion number.
fn row_of(rows: &[f32], id: u64) -> &[f32] {
    &rows[id as usize * DIM..][..DIM]
}

#[test_matrix([Adapter, Host], [Quantization::None, Quantization::Int8])]
fn rows_on_the_device_are_added_like_those_of_the_host(engine: Engine, quantization: Quantization) {
    let Some(device) = engine.device() else { return };
    // Far from the origin: a centre that is not counted would show.
    let rows: Vec<f32> = Random::new(0xde).integers(6000 * DIM, 40).iter().map(|x| x + 3000.0).collect();
    let (rows, few) = (view(&rows, DIM), view(&rows[..70 * DIM], DIM));
    let [uploaded, few_there] = [rows, few].map(|rows| device.upload(rows).expect("good rows"));
    let ids: Vec<u64> = (0..70).map(|id| 20_000 - id).collect();
    let (mut host, mut index) = (empty(device, quantization), empty(device, quantization));
    host.add(rows).expect("good rows");
    index.add(&uploaded).expect("good rows");
    for index in [&mut host, &mut index] {
        index.remove(&(0..100).map(|id| id * 50).collect::<Vec<u64>>()).expect("they are there");
    }
    host.add_with(few, &AddOptions::new().ids(&ids)).expect("good rows");
    index.add_with(&few_there, &AddOptions::new().ids(&ids)).expect("good rows");
    for count in [3, 40] {
        let [want, found] = [&host, &index]
            .map(|index| index.search_with(rows.slice(0..count), &SearchOptions::new(9)).expect("an answer"));
        assert_eq!(found.neighbors, want.neighbors);
        let [few, many] = [want, found].map(|found| found.statistics.refined);
        assert!(many <= few + few / 4, "{many} refined, {few} of those from the host");
    }
    let some = [1, 63, 5999, 20_000, 19_931];
    assert_eq!(index.get(&some).expect("they are there"), host.get(&some).expect("they are there"));
}

#[test_matrix([Adapter, Host])]
fn vectors_on_the_device_that_do_not_fit_are_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = [1.0f32; 4 * DIM];
    let uploaded = device.upload(view(&rows, DIM)).expect("good rows");
    let named = |error: Error| assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    let mut half = Flat::builder(device, Metric::L2, DIM).elements(ElementKind::F16).build().expect("one");
    named(half.add(&uploaded).expect_err("f32 rows in an index of f16"));
    let wide = device.upload(view(&rows, 2 * DIM)).expect("good rows");
    named(empty(device, Quantization::None).add(&wide).expect_err("another dim"));
    let mut index = empty(device, Quantization::None);
    let error = index.add_with(&uploaded, &AddOptions::new().ids(&[1, 2, 3])).expect_err("one id short");
    assert!(matches!(error, Error::Argument { argument: "ids", .. }), "{error}");
    assert!(index.is_empty());
    // All devices of the host engine are one.
    if !has_kernels(device) {
        return;
    }
    let other = engine.without_subgroups().expect("the same adapter");
    let there = other.upload(view(&rows, DIM)).expect("good rows");
    let ivf = Ivf::builder(device, Metric::L2, DIM).lists(2).train(view(&rows, DIM)).expect("trains");
    for mut index in [Index::from(empty(device, Quantization::None)), ivf.into()] {
        named(index.add(&there).expect_err("rows of another device"));
        let error = index.search(&there, 1).expect_err("queries of another device");
        assert!(matches!(error, Error::Argument { argument: "queries", .. }), "{error}");
        assert!(index.is_empty());
    }
    // Values that the caller wrote into the matrix are checked again.
    let mut values = [1.0f32; 4 * 8];
    values[3 * 8] = f32::NAN;
    let bench = Bench::new(device);
    let written = bench.input(&values);
    let params = copy::Params { vectors: 8 };
    bench.run(|recorder| {
        let buffers = [BufferSlice::all(&written), uploaded.as_slice().expect("a GPU")];
        recorder.dispatch(&copy::KERNEL, ElementKind::F32, &[], &params, &buffers, [1, 1])
    });
    let error = index.add(&uploaded).expect_err("not finite");
    assert!(matches!(error, Error::NotFinite { row: 3, .. }), "{error}");
    assert!(index.is_empty());
}

/// Blocks that a search looks at, which the plan of kernels tells.
fn blocks(index: &Flat) -> u32 {
    let plan = index.plan(40, 1).expect("a plan");
    let Route::Screened { chunk_blocks, chunks, .. } = plan.route() else { panic!("{plan}") };
    chunk_blocks * chunks
}

#[test]
fn an_index_with_many_tombstones_compacts_itself() {
    let Some(device) = gpu() else { return };
    for quantization in [Quantization::None, Quantization::Int8] {
        let mut random = Random::new(0xc0);
        let rows = random.integers(6000 * DIM, 3);
        let mut index = empty(device, quantization);
        index.add(view(&rows, DIM)).expect("good rows");
        let queries = view(&rows[..40 * DIM], DIM);
        let mut remove = |ids: std::ops::Range<u64>| {
            index.remove(&ids.map(|id| id * 2).collect::<Vec<u64>>()).expect("they are there");
            let (blocks, found) = (blocks(&index), index.search(queries, 5).expect("an answer"));
            let left: Vec<u64> = index.ids().expect("memory");
            let values: Vec<f32> = left.iter().flat_map(|&id| row_of(&rows, id)).copied().collect();
            let fresh =
                flat_with_ids(device, Metric::L2Squared, view(&values, DIM), Quantization::None, &left);
            assert_eq!(found, fresh.search(queries, 5).expect("an answer"));
            (index.len(), blocks)
        };
        // 30% are not too many yet.
        assert_eq!(remove(0..1800), (4200, 47));
        assert_eq!(remove(1800..1801), (4199, 33));
        // With fewer than 4,096 places none are too many.
        assert_eq!(remove(1801..2900), (3100, 33));
        index.compact().expect("it is compacted");
        assert_eq!(blocks(&index), 25);
    }
}

#[test_matrix([Adapter, Host])]
fn rows_at_the_end_leave_no_tombstone(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut index = empty(device, Quantization::Int8);
    let rows = Random::new(5).integers(3000 * DIM, 3);
    index.add(view(&rows, DIM)).expect("good rows");
    index.remove(&(1000..3000).collect::<Vec<u64>>()).expect("they are there");
    assert_eq!(index.len(), 1000);
    assert!(!has_kernels(device) || blocks(&index) == 8);
    index.remove(&(0..1000).collect::<Vec<u64>>()).expect("they are there");
    assert!(index.is_empty() && index.ids().expect("memory").is_empty());
    assert!(index.search(view(&rows[..DIM], DIM), 3).expect("an answer").row(0).is_empty());
    index.compact().expect("there is nothing to do");
    // Numbers do not start again.
    index.add(view(&rows[..2 * DIM], DIM)).expect("good rows");
    assert_eq!(index.ids().expect("memory"), [3000, 3001]);
    assert_eq!(index.get(&[3001]).expect("it is there"), rows[DIM..2 * DIM]);
}

#[test_matrix([Adapter, Host])]
fn what_is_unknown_or_does_not_fit_is_refused_by_name(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut index = empty(device, Quantization::None);
    index.add(view(&[1.0f32; 3 * DIM], DIM)).expect("good rows");
    let unknown = |error: Error, wanted: u64| {
        assert!(matches!(error, Error::UnknownId { id } if id == wanted), "{error}");
        assert!(error.to_string().contains(&wanted.to_string()), "{error}");
    };
    unknown(index.get(&[3]).expect_err("unknown"), 3);
    unknown(index.remove(&[0, 77, 88]).expect_err("unknown"), 77);
    unknown(index.update(&[u64::MAX], &[0.0f32; DIM]).expect_err("unknown"), u64::MAX);
    let error = index.update(&[1], &[0.0f32; DIM + 1]).expect_err("another dim");
    assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    let error = index.update(&[1], &[1e-30f32; DIM]).expect_err("too short");
    assert!(matches!(error, Error::NormOutOfRange { row: 0, .. }), "{error}");
    index.remove(&[]).expect("nothing to do");
    assert_eq!((index.len(), index.get(&[1]).expect("it is there")), (3, vec![1.0; DIM]));
    // The id of a removed row is free for the caller.
    index.remove(&[1, 1]).expect("it is there");
    assert!(index.contains(0) && !index.contains(1));
    index.add_with(view(&[2.0f32; DIM], DIM), &AddOptions::new().ids(&[1])).expect("a good row");
    assert_eq!(index.get(&[1]).expect("it is there"), [2.0; DIM]);
}

#[test]
fn a_budget_that_fits_no_row_says_what_is_needed() {
    let dim = 3000;
    // The host engine moves rows within the memory that they lie in.
    let Some(device) = confined(u64::MAX, 26_000) else { return };
    let mut index = Flat::builder(&device, Metric::L2, dim).build().expect("an index");
    let rows: Vec<f32> = (0..3 * dim).map(|i| (i as f32).sin()).collect();
    index.add(view(&rows, dim)).expect("rows behind the end need no scratch");
    index.remove(&[0]).expect("it is there");
    for error in [
        index.get(&[1]).map(drop).expect_err("12,000 bytes"),
        index.add(view(&rows, dim)).expect_err("12,000 bytes"),
        index.compact().expect_err("12,000 bytes"),
    ] {
        assert!(matches!(error, Error::Budget { needed: 26_001.., budget: 26_000, .. }), "{error}");
    }
    assert_eq!(index.ids().expect("memory"), [1, 2]);
}
