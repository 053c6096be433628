//! Single changes of a `Flat`: rows added, removed and updated. `living.rs` tests long sequences of changes.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::{confined, gpu, has_kernels};
use crate::support::flat_with_ids;
use nearfield::internals::ceilings::copy;
use nearfield::{
    AddOptions, BufferSlice, Device, ElementKind, Error, Flat, Metric, Route, Screen, SearchOptions,
};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 6;

fn empty(device: &Device, screen: Screen) -> Flat {
    Flat::builder(device, Metric::L2Squared, DIM).screen(screen).build().expect("an index")
}

/// The row that was given with an insertion number.
fn row_of(rows: &[f32], id: u64) -> &[f32] {
    &rows[id as usize * DIM..][..DIM]
}

#[test_matrix([Adapter, Host])]
fn numbers_skip_ids_that_are_taken(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows: Vec<f32> = (0..3 * DIM).map(|i| i as f32).collect();
    let mut index = empty(device, Screen::None);
    let add_with = |index: &mut Flat, id: u64| {
        index.add_with(view(&rows[..DIM], DIM), &AddOptions::new().ids(&[id])).expect("a free id");
    };
    add_with(&mut index, 3);
    // The row with id 3 was the first, so the next number is 1.
    (0..3).for_each(|_| index.add(view(&rows[..DIM], DIM)).expect("a good row"));
    assert_eq!(index.ids().expect("memory"), [1, 2, 3, 4]);
    add_with(&mut index, 7);
    index.add(view(&rows, DIM)).expect("good rows");
    assert_eq!(
        index.ids().expect("memory"),
        [1, 2, 3, 4, 7, 8, 9, 10],
        "the rows of a call have successive numbers"
    );
    assert_eq!(index.get(&[8, 9, 10]).expect("rows"), rows);
    index.remove(&[7, 10]).expect("they are there");
    index.add(view(&rows[..DIM], DIM)).expect("a good row");
    assert_eq!(index.ids().expect("memory"), [1, 2, 3, 4, 8, 9, 11], "no number is given twice");
    assert_eq!(index.largest_id(), Some(11));
}

#[test_matrix([Adapter, Host])]
fn an_add_that_fails_after_places_were_used_again_changes_nothing(engine: Engine) {
    // Five hundred rows at a time, three segments' worth of gaps.
    let Some(device) = engine.confined(512 * 32, 64 << 10) else { return };
    for screen in [Screen::None, Screen::I8] {
        let mut random = Random::new(0xbad);
        let rows = random.integers(4000 * DIM, 3);
        let mut index = empty(&device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        let gone: Vec<u64> = (0..4000).filter(|id| id % 4 == 1).collect();
        index.remove(&gone).expect("they are there");
        let queries = view(&rows[..3 * DIM], DIM);
        let before = index.search(queries, 20).expect("an answer");
        for (count, at) in [(10, 9), (2000, 1999), (2000, 700)] {
            let mut bad = random.integers(count * DIM, 3);
            bad[at * DIM + 2] = [f32::INFINITY, 1e30][at % 2];
            let ids: Vec<u64> = (10_000..10_000 + count as u64).collect();
            for ids in [None, Some(&ids[..])] {
                let mut options = AddOptions::new();
                options.ids = ids;
                let error = index.add_with(view(&bad, DIM), &options);
                let (Err(Error::NotFinite { row, .. }) | Err(Error::NormOutOfRange { row, .. })) = error
                else {
                    panic!("{error:?}")
                };
                assert_eq!((row, index.len()), (at as u64, 3000));
                assert_eq!(index.search(queries, 20).expect("an answer"), before, "{count} rows");
            }
        }
        // The places are as good as before.
        index.add(view(&rows[..1500 * DIM], DIM)).expect("good rows");
        let ids = index.ids().expect("memory");
        assert!(
            ids.iter().copied().eq((0..4000).filter(|id| id % 4 != 1).chain(4000..5500)),
            "numbers go on"
        );
        let left: Vec<f32> = ids.iter().flat_map(|&id| row_of(&rows, id % 4000)).copied().collect();
        let fresh = flat_with_ids(&device, Metric::L2Squared, view(&left, DIM), screen, &ids);
        assert_eq!(
            index.search(queries, 20).expect("an answer"),
            fresh.search(queries, 20).expect("an answer")
        );
    }
}

#[test_matrix([Adapter, Host])]
fn rows_on_the_device_are_added_like_those_of_the_host(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Pieces of some hundred rows, and one of all of them.
    let Some(small) = engine.confined(512 * 32, 64 << 10) else { return };
    for device in [device, &small] {
        for screen in [Screen::None, Screen::I8] {
            let mut random = Random::new(0xde);
            // Far from the origin: a centre that is not counted would show.
            let rows: Vec<f32> = random.integers(6000 * DIM, 40).iter().map(|x| x + 3000.0).collect();
            let uploaded = device.upload(view(&rows, DIM)).expect("good rows");
            let few = device.upload(view(&rows[..70 * DIM], DIM)).expect("good rows");
            let ids: Vec<u64> = (0..70).map(|id| 20_000 - id).collect();
            let (mut host, mut index) = (empty(device, screen), empty(device, screen));
            host.add(view(&rows, DIM)).expect("good rows");
            index.add(&uploaded).expect("good rows");
            for index in [&mut host, &mut index] {
                index.remove(&(0..100).map(|id| id * 50).collect::<Vec<u64>>()).expect("they are there");
            }
            host.add_with(view(&rows[..70 * DIM], DIM), &AddOptions::new().ids(&ids)).expect("good rows");
            index.add_with(&few, &AddOptions::new().ids(&ids)).expect("good rows");
            for count in [3, 40] {
                let queries = view(&rows[..count * DIM], DIM);
                let [want, found] = [&host, &index]
                    .map(|index| index.search_with(queries, &SearchOptions::new(9)).expect("an answer"));
                assert_eq!(found.neighbors, want.neighbors, "{screen:?}");
                let [few, many] = [want, found].map(|found| found.statistics.rescored);
                assert!(many <= few + few / 4, "{screen:?}: {many} rescored, {few} of those from the host");
            }
            for id in [1, 63, 5999, 20_000, 19_931] {
                assert_eq!(index.get(&[id]).expect("it is there"), host.get(&[id]).expect("it is there"));
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn rows_on_the_device_that_do_not_fit_are_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let Some(other) = engine.confined(u64::MAX, 1 << 24) else { return };
    let rows = [1.0f32; 4 * DIM];
    let uploaded = device.upload(view(&rows, DIM)).expect("good rows");
    let named = |error: Error| assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    let mut half = Flat::builder(device, Metric::L2, DIM).elements(ElementKind::F16).build().expect("one");
    named(half.add(&uploaded).expect_err("f32 rows in an index of f16"));
    // All devices of the host engine are one.
    if has_kernels(device) {
        named(empty(&other, Screen::None).add(&uploaded).expect_err("rows of another device"));
    }
    let wide = device.upload(view(&rows, 2 * DIM)).expect("good rows");
    named(empty(device, Screen::None).add(&wide).expect_err("another dim"));
    let mut index = empty(device, Screen::None);
    let error = index.add_with(&uploaded, &AddOptions::new().ids(&[1, 2, 3])).expect_err("one id short");
    assert!(matches!(error, Error::Argument { argument: "ids", .. }), "{error}");
    assert!(index.is_empty());
    if !has_kernels(device) {
        return;
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
    let Route::Nominate { chunk_blocks, chunks, .. } = plan.route else { panic!("{plan}") };
    chunk_blocks * chunks
}

#[test]
fn an_index_with_many_gaps_compacts_itself() {
    let Some(device) = gpu() else { return };
    for screen in [Screen::None, Screen::I8] {
        let mut random = Random::new(0xc0);
        let rows = random.integers(6000 * DIM, 3);
        let mut index = empty(device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        let queries = view(&rows[..40 * DIM], DIM);
        let mut remove = |ids: std::ops::Range<u64>| {
            index.remove(&ids.map(|id| id * 2).collect::<Vec<u64>>()).expect("they are there");
            let (blocks, found) = (blocks(&index), index.search(queries, 5).expect("an answer"));
            let left: Vec<u64> = index.ids().expect("memory");
            let values: Vec<f32> = left.iter().flat_map(|&id| row_of(&rows, id)).copied().collect();
            let fresh = flat_with_ids(device, Metric::L2Squared, view(&values, DIM), Screen::None, &left);
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
fn rows_at_the_end_leave_no_gap(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut index = empty(device, Screen::I8);
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
    let mut index = empty(device, Screen::None);
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
    let error =
        index.add_with(view(&[2.0f32; 2 * DIM], DIM), &AddOptions::new().ids(&[9, 9])).expect_err("twice");
    assert!(matches!(error, Error::DuplicateId { id: 9 }), "{error}");
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

#[test_matrix([Adapter, Host])]
fn eight_threads_search_an_index_with_gaps_and_places_used_again(engine: Engine) {
    let Some(device) = engine.confined(512 * 32, 2 << 20) else { return };
    let mut random = Random::new(0x88);
    let rows = random.integers(3000 * DIM, 3);
    for screen in [Screen::None, Screen::I8] {
        let mut index = empty(&device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        index.remove(&(0..3000).step_by(6).collect::<Vec<u64>>()).expect("they are there");
        index.add(view(&rows[..300 * DIM], DIM)).expect("good rows");
        let queries = view(&rows[..50 * DIM], DIM);
        let want = index.search(queries, 8).expect("an answer");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (index, want, rows) = (&index, &want, &rows);
                scope.spawn(move || {
                    for first in [thread, 49] {
                        let found = index.search(queries.slice(first..50), 8).expect("an answer");
                        for query in first..50 {
                            assert_eq!(found.row(query - first), want.row(query));
                        }
                        let id = 1 + 6 * (thread + first) as u64;
                        assert_eq!(index.get(&[id]).expect("it is there"), row_of(rows, id));
                    }
                });
            }
        });
    }
}
