//! An index whose rows come and go answers like a fresh one of the rows that are left.

mod common;

use std::collections::BTreeMap;
use std::future::Future;
use std::task::{Context, Poll, Waker};

use common::bench::Bench;
use common::{Random, confined, gpu, has_kernels, rounded, view};
use nearfield::kernels::copy;
use nearfield::{
    BufferSlice, Device, ElementKind, Error, Filter, Flat, Metric, Route, Screen, SearchOptions,
};

const DIM: usize = 6;

fn empty(device: &Device, screen: Screen) -> Flat {
    Flat::builder(device, Metric::L2Squared, DIM).screen(screen).build().expect("an index")
}

#[test]
fn a_removed_row_is_gone_and_its_place_is_used_again() {
    let Some(device) = gpu() else { return };
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
        let error = index.get(100).expect_err("it is gone");
        assert!(matches!(error, Error::UnknownId { id: 100 }), "{error}");
        assert_eq!(index.get(101).expect("it is there"), rows[101 * DIM..][..DIM]);
        // Numbers go on where they were.
        index.add(view(&rows[..4 * DIM], DIM)).expect("good rows");
        assert!((300..304).all(|id| index.contains(id)) && !index.contains(7));
        assert_eq!(index.get(302).expect("it is there"), rows[2 * DIM..][..DIM]);
        assert!(index.ids().eq((0..304).filter(|id| ![7, 100, 298, 299].contains(id))));
        index.update(5, &[0.5; DIM]).expect("a good row");
        assert_eq!(index.get(5).expect("it is there"), [0.5; DIM]);
        assert_eq!(index.len(), 300);
    }
}

/// What an index should hold, and how it is made.
struct Model<'d> {
    device: &'d Device,
    screen: Screen,
    elements: ElementKind,
    metric: Metric,
    rows: BTreeMap<u64, Vec<f32>>,
    /// Insertion numbers that were given.
    inserted: u64,
}

impl Model<'_> {
    fn index(&self) -> Flat {
        let builder = Flat::builder(self.device, self.metric, DIM).screen(self.screen);
        builder.elements(self.elements).build().expect("an index")
    }

    fn add(&self, index: &mut Flat, rows: &[f32], ids: Option<&[u64]>) -> Result<(), Error> {
        let (halves, _) = rounded(rows);
        match (self.elements, ids) {
            (ElementKind::F32, None) => index.add(view(rows, DIM)),
            (ElementKind::F32, Some(ids)) => index.add_with_ids(view(rows, DIM), ids),
            (ElementKind::F16, None) => index.add(view(&halves, DIM)),
            (ElementKind::F16, Some(ids)) => index.add_with_ids(view(&halves, DIM), ids),
        }
    }

    fn update(&self, index: &mut Flat, id: u64, row: &[f32]) -> Result<(), Error> {
        match self.elements {
            ElementKind::F32 => index.update(id, row),
            ElementKind::F16 => index.update(id, &rounded(row).0),
        }
    }

    fn any_id(&self, random: &mut Random) -> Option<u64> {
        let place = random.below(self.rows.len().max(1));
        self.rows.keys().copied().nth(place)
    }

    /// The index answers as the rows themselves, and as an index that was made of them.
    fn check(&self, index: &Flat, random: &mut Random) {
        assert_eq!(index.len(), self.rows.len());
        assert!(index.ids().eq(self.rows.keys().copied()), "ids ascend");
        if let Some(id) = self.any_id(random) {
            assert_eq!(index.get(id).expect("it is there"), self.rows[&id], "row {id}");
        }
        // In another order, so that slots have nothing in common.
        let mut fresh = self.index();
        let ids: Vec<u64> = self.rows.keys().rev().copied().collect();
        let rows: Vec<f32> = self.rows.values().rev().flatten().copied().collect();
        self.add(&mut fresh, &rows, Some(&ids)).expect("good rows");
        let share = random.below(6) as u64;
        let allowed = |id: u64| id % 5 < share;
        for (count, k) in [(1, 3), (6, 11), (35, 4), (2, self.rows.len() + 7)] {
            let queries = random.integers(count * DIM, 3);
            let queries = view(&queries, DIM);
            let said = format!("{} rows, {count} queries, k {k}", self.rows.len());
            let want = fresh.search(queries, k).expect("an answer");
            assert_eq!(index.search(queries, k).expect("an answer"), want, "{said}");
            let options = SearchOptions::new(k).filter(Filter::by(&allowed));
            let (want, _) = fresh.search_with(queries, &options).expect("an answer");
            let (found, _) = index.search_with(queries, &options).expect("an answer");
            assert_eq!(found, want, "{said}, {share} of 5 ids");
        }
        let queries = random.integers(3 * DIM, 3);
        let want = fresh.search_within(view(&queries, DIM), 30.0).expect("an answer");
        assert_eq!(index.search_within(view(&queries, DIM), 30.0).expect("an answer"), want);
    }

    /// So many random operations.
    fn live(&mut self, seed: u64, operations: usize) {
        let mut random = Random::new(seed);
        let mut index = self.index();
        for operation in 0..operations {
            match random.below(12) {
                0..4 => {
                    let count = if random.below(6) == 0 { random.below(700) } else { random.below(40) };
                    let rows = random.integers(count * DIM, 3);
                    let numbers = self.inserted..self.inserted + count as u64;
                    let taken = numbers.clone().find(|id| self.rows.contains_key(id));
                    let result = self.add(&mut index, &rows, None);
                    match (result, taken) {
                        (Ok(()), None) => {
                            self.rows.extend(numbers.zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
                            self.inserted += count as u64;
                        }
                        (Err(Error::DuplicateId { id }), Some(taken)) => assert_eq!(id, taken),
                        (result, taken) => panic!("{result:?}, {taken:?} is taken"),
                    }
                }
                4 | 5 => {
                    // Far away and near, some of them ids that were there before.
                    let count = random.below(60);
                    let mut ids: Vec<u64> = (0..count)
                        .map(|_| [random.next() >> 1, random.next() % 3000][random.below(2)])
                        .filter(|id| !self.rows.contains_key(id))
                        .collect();
                    ids.sort_unstable_by_key(|id| id.wrapping_mul(0x9e37_79b9));
                    ids.dedup();
                    let rows = random.integers(ids.len() * DIM, 3);
                    self.add(&mut index, &rows, Some(&ids)).expect("good rows");
                    self.inserted += ids.len() as u64;
                    self.rows.extend(ids.into_iter().zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
                }
                6 | 7 => {
                    let every = [2, 3, 20][random.below(3)];
                    let mut gone: Vec<u64> =
                        self.rows.keys().copied().filter(|_| random.below(every) == 0).collect();
                    if random.below(4) == 0 {
                        // From the end, as it may be.
                        gone = self.rows.keys().rev().take(random.below(300)).copied().collect();
                    }
                    index.remove(&gone).expect("they are there");
                    gone.iter().for_each(|id| drop(self.rows.remove(id)));
                }
                8 | 9 => {
                    for _ in 0..random.below(4) {
                        let Some(id) = self.any_id(&mut random) else { continue };
                        let row = random.integers(DIM, 3);
                        self.update(&mut index, id, &row).expect("a good row");
                        self.rows.insert(id, row);
                    }
                }
                10 => index.compact().expect("it is compacted"),
                _ => {
                    let unknown = random.next() >> 1;
                    let known = self.any_id(&mut random);
                    let error = index.remove(&[known.unwrap_or(unknown), unknown]).expect_err("unknown");
                    assert!(matches!(error, Error::UnknownId { id } if id == unknown), "{error}");
                    let mut bad = vec![1.0; 90 * DIM];
                    bad[77 * DIM] = f32::NAN;
                    let error = self.add(&mut index, &bad, None).expect_err("not finite");
                    assert!(matches!(error, Error::NotFinite { row: 77, .. } | Error::DuplicateId { .. }));
                    if let Some(id) = known {
                        let error = self.update(&mut index, id, &bad[77 * DIM..78 * DIM]);
                        assert!(matches!(error, Err(Error::NotFinite { row: 0, .. })));
                    }
                }
            }
            if operation % 5 == 4 {
                self.check(&index, &mut random);
            }
        }
        self.check(&index, &mut random);
    }
}

fn lives(screen: Screen, elements: ElementKind, metric: Metric, seed: u64) {
    // 128 rows a segment, and room for some hundred rows on their way.
    let Some(device) = confined(128 * 32, 512 << 10) else { return };
    let mut model = Model { device: &device, screen, elements, metric, rows: BTreeMap::new(), inserted: 0 };
    model.live(seed, 250);
}

#[test]
fn after_any_operations_an_index_of_f32_answers_as_a_fresh_one() {
    lives(Screen::None, ElementKind::F32, Metric::L2Squared, 0xf1a7);
}

#[test]
fn after_any_operations_a_screened_index_of_f32_answers_as_a_fresh_one() {
    lives(Screen::I8, ElementKind::F32, Metric::InnerProduct, 0xf1a8);
}

#[test]
fn after_any_operations_an_index_of_f16_answers_as_a_fresh_one() {
    lives(Screen::None, ElementKind::F16, Metric::Cosine, 0xf1a9);
}

#[test]
fn after_any_operations_a_screened_index_of_f16_answers_as_a_fresh_one() {
    lives(Screen::I8, ElementKind::F16, Metric::L2Squared, 0xf1aa);
}

/// The row that was given with an insertion number.
fn row_of(rows: &[f32], id: u64) -> &[f32] {
    &rows[id as usize * DIM..][..DIM]
}

/// Those of several, one behind the other.
fn rows_of(rows: &[f32], ids: &[u64]) -> Vec<f32> {
    ids.iter().flat_map(|&id| row_of(rows, id)).copied().collect()
}

#[test]
fn an_add_that_fails_after_places_were_used_again_changes_nothing() {
    // Five hundred rows at a time, three segments' worth of gaps.
    let Some(device) = confined(512 * 32, 64 << 10) else { return };
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
                    Some(ids) => index.add_with_ids(view(&bad, DIM), ids),
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
        fresh.add_with_ids(view(&rows_of(&rows, &ids), DIM), &ids).expect("good rows");
        assert_eq!(
            index.search(queries, 20).expect("an answer"),
            fresh.search(queries, 20).expect("an answer")
        );
    }
}

#[test]
fn of_equal_rows_the_smaller_ids_are_found_wherever_they_lie() {
    let Some(device) = gpu() else { return };
    for (screen, rows) in [(Screen::None, 300), (Screen::I8, 6000), (Screen::None, 6000)] {
        let mut index = empty(device, screen);
        let ids: Vec<u64> = (0..rows).map(|row| 1000 + row * 2).collect();
        index.add_with_ids(view(&vec![1.0; rows as usize * DIM], DIM), &ids).expect("good rows");
        // Smaller ids come into the places of larger ones, and larger ones into those of smaller ones.
        index.remove(&[1000, 1002, 1004, 1000 + rows, 1000 + rows + 2]).expect("they are there");
        index.add_with_ids(view(&[1.0; 4 * DIM], DIM), &[1 << 50, 1, 1003, 999]).expect("good rows");
        index.update(1006, &[1.0; DIM]).expect("a good row");
        for count in [1, 20] {
            let found = index.search(view(&vec![1.0; count * DIM], DIM), 6).expect("an answer");
            for row in found.iter() {
                let ids: Vec<u64> = row.iter().map(|hit| hit.id).collect();
                assert_eq!(ids, [1, 999, 1003, 1006, 1008, 1010], "{screen:?}, {rows} rows");
            }
        }
    }
}

#[test]
fn rows_on_the_device_are_added_like_those_of_the_host() {
    let Some(device) = gpu() else { return };
    // Pieces of some hundred rows, and one of all of them.
    let Some(small) = confined(512 * 32, 64 << 10) else { return };
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
            index.add_device(&uploaded).expect("good rows");
            for index in [&mut host, &mut index] {
                index.remove(&(0..100).map(|id| id * 50).collect::<Vec<u64>>()).expect("they are there");
            }
            host.add_with_ids(view(&rows[..70 * DIM], DIM), &ids).expect("good rows");
            index.add_device_with_ids(&few, &ids).expect("good rows");
            for count in [3, 40] {
                let queries = view(&rows[..count * DIM], DIM);
                let (want, screened) = host.search_with(queries, &SearchOptions::new(9)).expect("an answer");
                let (found, also) = index.search_with(queries, &SearchOptions::new(9)).expect("an answer");
                assert_eq!(found, want, "{screen:?}");
                let (few, many) = (screened.rescored, also.rescored);
                assert!(
                    many <= few + few / 4,
                    "{screen:?}: {many} rows rescored, {few} of those from the host"
                );
            }
            for id in [1, 63, 5999, 20_000, 19_931] {
                assert_eq!(index.get(id).expect("it is there"), host.get(id).expect("it is there"));
            }
        }
    }
}

#[test]
fn rows_on_the_device_that_do_not_fit_are_refused() {
    let Some(device) = gpu() else { return };
    let Some(other) = confined(u64::MAX, 1 << 24) else { return };
    let rows = [1.0f32; 4 * DIM];
    let uploaded = device.upload(view(&rows, DIM)).expect("good rows");
    let named = |error: Error| assert!(matches!(error, Error::Argument { argument: "rows", .. }), "{error}");
    let mut half = Flat::builder(device, Metric::L2, DIM).elements(ElementKind::F16).build().expect("one");
    named(half.add_device(&uploaded).expect_err("f32 rows in an index of f16"));
    named(empty(&other, Screen::None).add_device(&uploaded).expect_err("rows of another device"));
    let wide = device.upload(view(&rows, 2 * DIM)).expect("good rows");
    named(empty(device, Screen::None).add_device(&wide).expect_err("another dim"));
    let mut index = empty(device, Screen::None);
    let error = index.add_device_with_ids(&uploaded, &[1, 2, 3]).expect_err("one id short");
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
    let error = index.add_device(&uploaded).expect_err("not finite");
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
    let Some(device) = gpu().filter(|device| has_kernels(device)) else { return };
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
            fresh.add_with_ids(view(&rows_of(&rows, &left), DIM), &left).expect("good rows");
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

#[test]
fn rows_at_the_end_leave_no_gap() {
    let Some(device) = gpu() else { return };
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
    assert_eq!(index.get(3001).expect("it is there"), rows[DIM..2 * DIM]);
}

#[test]
fn what_is_unknown_or_does_not_fit_is_refused_by_name() {
    let Some(device) = gpu() else { return };
    let mut index = empty(device, Screen::None);
    index.add(view(&[1.0f32; 3 * DIM], DIM)).expect("good rows");
    let unknown = |error: Error, wanted: u64| {
        assert!(matches!(error, Error::UnknownId { id } if id == wanted), "{error}");
        assert!(error.to_string().contains(&wanted.to_string()), "{error}");
    };
    unknown(index.get(3).expect_err("unknown"), 3);
    unknown(index.remove(&[0, 77, 88]).expect_err("unknown"), 77);
    unknown(index.update(u64::MAX, &[0.0f32; DIM]).expect_err("unknown"), u64::MAX);
    let error = index.update(1, &[0.0f32; DIM + 1]).expect_err("another dim");
    assert!(matches!(error, Error::Argument { argument: "row", .. }), "{error}");
    let error = index.update(1, &[1e-30f32; DIM]).expect_err("too short");
    assert!(matches!(error, Error::NormOutOfRange { row: 0, .. }), "{error}");
    index.remove(&[]).expect("nothing to do");
    assert_eq!((index.len(), index.get(1).expect("it is there")), (3, vec![1.0; DIM]));
    // The id of a removed row is free for the caller.
    index.remove(&[1]).expect("it is there");
    index.add_with_ids(view(&[2.0f32; DIM], DIM), &[1]).expect("a good row");
    assert_eq!(index.get(1).expect("it is there"), [2.0; DIM]);
    let error = index.add_with_ids(view(&[2.0f32; 2 * DIM], DIM), &[9, 9]).expect_err("twice");
    assert!(matches!(error, Error::DuplicateId { id: 9 }), "{error}");
}

#[test]
fn a_budget_that_fits_no_row_says_what_is_needed() {
    let dim = 3000;
    // The host engine moves rows within the memory that they lie in.
    let Some(device) = confined(u64::MAX, 26_000).filter(has_kernels) else { return };
    let mut index = Flat::builder(&device, Metric::L2, dim).build().expect("an index");
    let rows: Vec<f32> = (0..3 * dim).map(|i| (i as f32).sin()).collect();
    index.add(view(&rows, dim)).expect("rows behind the end need no scratch");
    index.remove(&[0]).expect("it is there");
    for error in [
        index.get(1).map(drop).expect_err("12,000 bytes"),
        index.add(view(&rows, dim)).expect_err("12,000 bytes"),
        index.compact().expect_err("12,000 bytes"),
    ] {
        assert!(matches!(error, Error::Budget { needed: 26_001.., budget: 26_000, .. }), "{error}");
    }
    assert!(index.ids().eq([1, 2]));
}

#[test]
fn eight_threads_search_an_index_with_gaps_and_places_used_again() {
    let Some(device) = confined(256 * 32, 2 << 20) else { return };
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
                        assert_eq!(index.get(id).expect("it is there"), row_of(rows, id));
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

#[test]
fn a_change_whose_future_is_dropped_is_made_or_not() {
    let Some(device) = confined(512 * 32, 64 << 10) else { return };
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
            let row = index.get(id).expect("it is there");
            // A search that is not gone on with holds the scratch that changes wait for, every other time.
            let mut holding = Box::pin(other.search_async(view(&rows[..600 * DIM], DIM), 12));
            let mut context = Context::from_waker(Waker::noop());
            let is_held = times % 2 == 0 && holding.as_mut().poll(&mut context).is_pending();
            let outcomes = [
                polled(index.add_async(view(&rows[..700 * DIM], DIM)), times).is_some(),
                polled(index.update_async(id, &[2.0f32; DIM]), times).is_some(),
                polled(index.compact_async(), times).is_some(),
            ];
            // One row finds room beside it, 700 do not.
            assert!(!is_held || !outcomes[0], "rows on their way need scratch");
            drop(holding);
            dropped += outcomes.iter().filter(|is_done| !**is_done).count();
            assert_eq!(index.len(), ids.len() + if outcomes[0] { 700 } else { 0 });
            let new = vec![2.0; DIM];
            assert_eq!(index.get(id).expect("it is there"), if outcomes[1] { new } else { row.clone() });
            if outcomes[1] {
                index.update(id, &row).expect("a good row");
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
