//! Single changes of a `Flat`: rows added, removed and updated. `living.rs` tests long sequences of changes.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::{Random, confined, gpu, has_kernels, view};
use nearfield::internals::ceilings::copy;
use nearfield::{
    AddOptions, BufferSlice, Device, ElementKind, Error, Flat, Metric, Route, Screen, SearchOptions,
    SearchResult,
};
use test_case::test_matrix;

const DIM: usize = 6;

fn empty(device: &Device, screen: Screen) -> Flat {
    Flat::builder(device, Metric::L2Squared, DIM).screen(screen).build().expect("an index")
}

#[test_matrix([Adapter, Host])]
fn a_removed_row_is_gone_and_its_place_is_used_again(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for screen in [Screen::None, Screen::I8] {
        let mut random = Random::new(1);
        let rows = random.integers(300 * DIM, 9);
        let mut index = empty(device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        index.remove(&[7, 100, 299, 298, 7]).expect("they are there");
        assert_eq!(index.len(), 296);
        assert!(!index.contains(100) && index.contains(101));
        let nearest = index.search(view(&rows[700 * DIM / 7..][..DIM], DIM), 300).expect("an answer");
        assert_eq!(nearest.row(0).len(), 296);
        assert!(nearest.row(0).iter().all(|hit| ![7, 100, 298, 299].contains(&hit.id)));
        let error = index.get(&[100]).expect_err("it is gone");
        assert!(matches!(error, Error::UnknownId { id: 100 }), "{error}");
        assert_eq!(index.get(&[101]).expect("it is there"), rows[101 * DIM..][..DIM]);
        // Numbers go on where they were.
        index.add(view(&rows[..4 * DIM], DIM)).expect("good rows");
        assert!((300..304).all(|id| index.contains(id)) && !index.contains(7));
        assert_eq!(index.get(&[302]).expect("it is there"), rows[2 * DIM..][..DIM]);
        assert!(index.ids().eq((0..304).filter(|id| ![7, 100, 298, 299].contains(id))));
        index.update(&[5], &[0.5; DIM]).expect("a good row");
        assert_eq!(index.get(&[5]).expect("it is there"), [0.5; DIM]);
        assert_eq!(index.len(), 300);
    }
}

/// The row that was given with an insertion number.
fn row_of(rows: &[f32], id: u64) -> &[f32] {
    &rows[id as usize * DIM..][..DIM]
}

/// Those of several, one behind the other.
fn rows_of(rows: &[f32], ids: &[u64]) -> Vec<f32> {
    ids.iter().flat_map(|&id| row_of(rows, id)).copied().collect()
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
        let queries = view(&rows[..40 * DIM], DIM);
        let before = index.search(queries, 20).expect("an answer");
        for (count, at) in [(10, 9), (900, 3), (2000, 1999), (2000, 700)] {
            let mut bad = random.integers(count * DIM, 3);
            bad[at * DIM + 2] = [f32::INFINITY, 1e30][at % 2];
            for ids in [None, Some((10_000..10_000 + count as u64).collect::<Vec<u64>>())] {
                let error = match &ids {
                    None => index.add(view(&bad, DIM)),
                    Some(ids) => index.add_with(view(&bad, DIM), &AddOptions::new().ids(ids)),
                };
                let (Err(Error::NotFinite { row, .. }) | Err(Error::NormOutOfRange { row, .. })) = error
                else {
                    panic!("{error:?}")
                };
                assert_eq!(row, at as u64);
                assert_eq!(index.len(), 3000);
                assert_eq!(index.search(queries, 20).expect("an answer"), before, "{count} rows");
            }
        }
        // The places are as good as before.
        let mut rows = rows.clone();
        rows.extend_from_within(..1500 * DIM);
        index.add(view(&rows[..1500 * DIM], DIM)).expect("good rows");
        assert_eq!(index.len(), 4500);
        assert!(index.ids().eq((0..4000).filter(|id| id % 4 != 1).chain(4000..5500)), "numbers go on");
        let mut fresh = empty(&device, screen);
        let ids: Vec<u64> = index.ids().collect();
        fresh.add_with(view(&rows_of(&rows, &ids), DIM), &AddOptions::new().ids(&ids)).expect("good rows");
        assert_eq!(
            index.search(queries, 20).expect("an answer"),
            fresh.search(queries, 20).expect("an answer")
        );
    }
}

#[test_matrix([Adapter, Host])]
fn of_equal_rows_the_smaller_ids_are_found_wherever_they_lie(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (screen, rows) in [(Screen::None, 300), (Screen::I8, 6000), (Screen::None, 6000)] {
        let mut index = empty(device, screen);
        let ids: Vec<u64> = (0..rows).map(|row| 1000 + row * 2).collect();
        index
            .add_with(view(&vec![1.0; rows as usize * DIM], DIM), &AddOptions::new().ids(&ids))
            .expect("good rows");
        // Smaller ids come into the places of larger ones, and larger ones into those of smaller ones.
        index.remove(&[1000, 1002, 1004, 1000 + rows, 1000 + rows + 2]).expect("they are there");
        index
            .add_with(view(&[1.0; 4 * DIM], DIM), &AddOptions::new().ids(&[1 << 50, 1, 1003, 999]))
            .expect("good rows");
        index.update(&[1006], &[1.0; DIM]).expect("a good row");
        for count in [1, 20] {
            let found = index.search(view(&vec![1.0; count * DIM], DIM), 6).expect("an answer");
            for row in found.iter() {
                let ids: Vec<u64> = row.iter().map(|hit| hit.id).collect();
                assert_eq!(ids, [1, 999, 1003, 1006, 1008, 1010], "{screen:?}, {rows} rows");
            }
        }
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
                let SearchResult { neighbors: want, statistics: screened, .. } =
                    host.search_with(queries, &SearchOptions::new(9)).expect("an answer");
                let SearchResult { neighbors: found, statistics: also, .. } =
                    index.search_with(queries, &SearchOptions::new(9)).expect("an answer");
                assert_eq!(found, want, "{screen:?}");
                let (few, many) = (screened.rescored, also.rescored);
                assert!(
                    many <= few + few / 4,
                    "{screen:?}: {many} rows rescored, {few} of those from the host"
                );
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
    // What a caller wrote into the matrix is looked at again.
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
            let mut fresh = empty(device, Screen::None);
            let left: Vec<u64> = index.ids().collect();
            fresh
                .add_with(view(&rows_of(&rows, &left), DIM), &AddOptions::new().ids(&left))
                .expect("good rows");
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
    assert!(index.is_empty() && index.ids().next().is_none());
    assert!(index.search(view(&rows[..DIM], DIM), 3).expect("an answer").row(0).is_empty());
    index.compact().expect("there is nothing to do");
    // Numbers do not start again.
    index.add(view(&rows[..2 * DIM], DIM)).expect("good rows");
    assert!(index.ids().eq([3000, 3001]));
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
    index.remove(&[1]).expect("it is there");
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
    assert!(index.ids().eq([1, 2]));
}

#[test_matrix([Adapter, Host])]
fn eight_threads_search_an_index_with_gaps_and_places_used_again(engine: Engine) {
    let Some(device) = engine.confined(256 * 32, 2 << 20) else { return };
    let mut random = Random::new(0x88);
    let rows = random.integers(5000 * DIM, 3);
    for screen in [Screen::None, Screen::I8] {
        let mut index = empty(&device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        index.remove(&(0..5000).step_by(6).collect::<Vec<u64>>()).expect("they are there");
        index.add(view(&rows[..300 * DIM], DIM)).expect("good rows");
        let queries = view(&rows[..50 * DIM], DIM);
        let want = index.search(queries, 8).expect("an answer");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (index, want, rows) = (&index, &want, &rows);
                scope.spawn(move || {
                    for first in [0, 20 + thread, 49] {
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

/// Polls a future so often at most; none when it was not ready by then.
fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    None
}

#[test_matrix([Adapter, Host])]
fn a_change_whose_future_is_dropped_is_made_or_not(engine: Engine) {
    let Some(device) = engine.confined(512 * 32, 64 << 10) else { return };
    for screen in [Screen::None, Screen::I8] {
        let mut random = Random::new(0xd0);
        let rows = random.integers(2000 * DIM, 3);
        let mut other = empty(&device, screen);
        other.add(view(&rows, DIM)).expect("good rows");
        let queries = view(&rows[..40 * DIM], DIM);
        let mut dropped = 0;
        for times in 1..14 {
            let mut index = empty(&device, screen);
            index.add(view(&rows, DIM)).expect("good rows");
            index.remove(&(0..500).map(|id| id * 3).collect::<Vec<u64>>()).expect("they are there");
            let before = index.search(queries, 12).expect("an answer");
            let ids: Vec<u64> = index.ids().collect();
            let id = ids[times * 31];
            let row = index.get(&[id]).expect("it is there");
            // A search that is not gone on with holds the scratch that changes wait for, every other time.
            let mut holding = Box::pin(other.search_async(view(&rows[..600 * DIM], DIM), 12));
            let mut context = Context::from_waker(Waker::noop());
            let is_held = times % 2 == 0 && holding.as_mut().poll(&mut context).is_pending();
            let outcomes = [
                polled(index.add_async(view(&rows[..700 * DIM], DIM)), times).is_some(),
                polled(index.update_async(&[id], &[2.0f32; DIM]), times).is_some(),
                polled(index.compact_async(), times).is_some(),
            ];
            // One row finds room beside it, 700 do not.
            assert!(!is_held || !outcomes[0], "rows on their way need scratch");
            drop(holding);
            dropped += outcomes.iter().filter(|is_done| !**is_done).count();
            assert_eq!(index.len(), ids.len() + if outcomes[0] { 700 } else { 0 });
            let new = vec![2.0; DIM];
            assert_eq!(index.get(&[id]).expect("it is there"), if outcomes[1] { new } else { row.clone() });
            if outcomes[1] {
                index.update(&[id], &row).expect("a good row");
            }
            if outcomes[0] {
                let added: Vec<u64> = index.ids().filter(|id| !ids.contains(id)).collect();
                index.remove(&added).expect("they are there");
            }
            assert!(index.ids().eq(ids));
            assert_eq!(index.search(queries, 12).expect("an answer"), before, "after {times} polls");
        }
        println!("{screen:?}: {dropped} of 39 changes were dropped before they were made");
    }
}
