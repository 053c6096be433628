//! Blocking calls that their caller interrupts: they end soon, with an error of their own, and what they worked on is whole.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::assert_soon;
use crate::support::few_iterations;
use nearfield::{
    AddOptions, Device, DistanceOptions, ElementKind, Error, Filter, Flat, Index, Ivf, KMeans, Metric,
    Precision, Quantization, SearchOptions, interruptible,
};
use nearfield_testing::living::{self, Kind, LISTS, answer, bits};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 96;
const ROWS: usize = 20_000;

/// How much work a test gives at a time. Software adapters take seconds for what they were given before a call ended.
fn amount(engine: Engine) -> usize {
    if engine == Adapter { 3000 } else { ROWS }
}

/// How soon a call has to end. Half a second is promised; tests run unoptimised, on busy machines.
const SOON: Duration = Duration::from_millis(1500);

/// Makes a call that is told to end when it asks for the `asks`-th time, and checks that it ends soon then. What it returns, and how often
/// it asked.
fn told<T>(asks: u32, call: impl FnOnce() -> T) -> (T, u32) {
    let (asked, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let hook = {
        let (asked, ended) = (asked.clone(), ended.clone());
        move || {
            asked.set(asked.get() + 1);
            if asked.get() == asks {
                ended.set(Some(Instant::now()));
            }
            asked.get() < asks
        }
    };
    let done = interruptible(hook, call);
    let took = ended.get().map_or(Duration::ZERO, |ended: Instant| ended.elapsed());
    assert_soon(took, SOON, "the end of a call");
    (done, asked.get())
}

/// Makes calls until one is told to end: on a fast machine it takes many of them.
fn interrupt<T>(what: &str, asks: u32, mut call: impl FnMut() -> Result<T, Error>) {
    let started = Instant::now();
    let (error, asked) = told(asks, || {
        loop {
            if let Err(error) = call() {
                return error;
            }
            assert!(started.elapsed() < Duration::from_secs(600), "{what} never asks");
        }
    });
    assert!(matches!(error, Error::Interrupted), "{what}: {error}");
    assert_eq!(asked, asks, "{what} asks no more");
}

/// Makes a call that is told to end when it asks, and starts this long after the hook was set.
fn stopped_after<T>(wait: Duration, call: impl FnOnce() -> T) -> T {
    let work = || {
        std::thread::sleep(wait);
        call()
    };
    told(1, work).0
}

/// Makes a call that is told to end as soon as it asks.
fn stopped<T>(call: impl FnOnce() -> T) -> T {
    stopped_after(Duration::from_millis(55), call)
}

/// Rows around some centres, so that lists and radii have something to find.
fn rows(random: &mut Random, count: usize) -> Vec<f32> {
    let centres = random.floats(50 * DIM);
    let mut rows = random.floats(count * DIM);
    for (row, values) in rows.chunks_exact_mut(DIM).enumerate() {
        let centre = &centres[row % 50 * DIM..][..DIM];
        values.iter_mut().zip(centre).for_each(|(x, m)| *x += 2.0 * m);
    }
    rows
}

/// An index whose searches run in small batches: a software adapter goes on with what it was given before a call ended.
fn index(device: &Device, kind: Kind, rows: &[f32]) -> Index {
    let budget = 16 << 20;
    let mut index: Index = match kind {
        Kind::Flat => {
            let builder = Flat::builder(device, Metric::L2Squared, DIM).budget(budget);
            builder.build().expect("an index").into()
        }
        Kind::Ivf => {
            let builder = Ivf::builder(device, Metric::L2Squared, DIM).lists(LISTS).budget(budget);
            builder.kmeans(few_iterations).train(view(&rows[..100 * DIM], DIM)).expect("trains").into()
        }
    };
    index.add(view(rows, DIM)).expect("good rows");
    index
}

/// The answers of an index to a few queries.
fn answers(index: &Index, queries: &[f32]) -> Vec<Vec<(u64, u32)>> {
    bits(&answer(index, view(&queries[..20 * DIM], DIM), &SearchOptions::new(7), 3))
}

#[test_matrix([Adapter, Host], [Kind::Flat, Kind::Ivf])]
fn a_search_ends_soon_and_the_index_answers_as_before(engine: Engine, kind: Kind) {
    let Some(device) = engine.device() else { return };
    let rows = rows(&mut Random::new(1), amount(engine));
    let index = index(device, kind, &rows);
    let before = answers(&index, &rows);
    let many = view(&rows, DIM);
    let options = match kind {
        Kind::Flat => SearchOptions::new(10),
        Kind::Ivf => SearchOptions::new(10).probes(LISTS / 2),
    };
    for asks in [1, 3] {
        interrupt("a search", asks, || index.search_with(many, &options));
        interrupt("a search within a radius", asks, || {
            index.search_with(many, &SearchOptions::within(250.0))
        });
    }
    assert!(answers(&index, &rows) == before);
}

/// A screen in f32, few allowed rows, a slow filter, k-means and distances: other loops.
#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn other_long_calls_end_soon(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = rows(&mut Random::new(2), ROWS);
    let mut index = Kind::Flat.make(device, Metric::Cosine, DIM, ElementKind::F32, Quantization::None);
    index.add(view(&values, DIM)).expect("good rows");
    let many = view(&values, DIM);
    interrupt("a search in f32", 1, || index.search(many, 10));
    let allowed: Vec<u64> = (0..ROWS as u64).step_by(40).collect();
    let options = SearchOptions::new(10).filter(Filter::ids(&allowed));
    interrupt("a search of few rows", 1, || index.search_with(many, &options));
    // A function that takes its time: 20,000 calls take seconds.
    let slow = |id: u64| {
        std::thread::sleep(Duration::from_micros(200));
        id.is_multiple_of(2)
    };
    let options = SearchOptions::new(10).filter(&slow);
    interrupt("a filter", 1, || index.search_with(many.slice(0..1), &options));

    let some = many.slice(0..amount(engine));
    for asks in [1, 4] {
        interrupt("the training of an index", asks, || {
            let builder = Ivf::builder(device, Metric::Cosine, DIM).lists(amount(engine) / 10);
            builder.kmeans(|means| means.iterations(500).tolerance(-1.0)).train(some)
        });
        // k-means++ for the first centroids.
        interrupt("k-means", asks, || {
            KMeans::new(Metric::L2, 100).iterations(5000).tolerance(-1.0).train(device, some)
        });
    }
    let means =
        KMeans::new(Metric::L2, 100).iterations(0).assign_all(false).train(device, some).expect("trains");
    let more = some.values().repeat(amount(engine) / 750);
    interrupt("a prediction", 2, || means.predict(device, view(&more, DIM)));

    let upload = |rows: usize| device.upload(view(&values[..rows * 768], 768)).expect("good rows");
    let [queries, rows, few] = if engine == Adapter { [700, 1200, 3] } else { [1500, 2500, 3] }.map(upload);
    for precision in [Precision::Fast, Precision::Compensated] {
        let options = DistanceOptions::new(Metric::L2).precision(precision);
        interrupt("distances", 2, || device.distances_with(&queries, &rows, options));
    }
    // Memory that was to take distances keeps its shape.
    let options = DistanceOptions::new(Metric::InnerProduct);
    let mut kept = device.distances_with(&few, &few, options).expect("memory");
    let result = stopped(|| device.distances_into(&queries, &rows, options, &mut kept));
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert_eq!((kept.queries(), kept.rows(), device.read(&kept).expect("memory").len()), (3, 3, 9));
}

#[test_matrix([Host], [Kind::Flat, Kind::Ivf])]
#[test_matrix([Adapter], [Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn an_add_ends_soon_and_adds_nothing(engine: Engine, kind: Kind) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(3);
    let first = rows(&mut random, 3000);
    let mut index = index(device, kind, &first);
    // Tombstones, which new rows fill first.
    index.remove(&(0..1000).step_by(3).collect::<Vec<u64>>()).expect("they are there");
    let (ids, before) = (living::ids(&index), answers(&index, &first));
    let many: Vec<f32> =
        std::iter::repeat_n(rows(&mut random, 5000), amount(engine) / 1500).flatten().collect();
    for wait in [55, 49, 45, 40, 30, 0] {
        match stopped_after(Duration::from_millis(wait), || index.add(view(&many, DIM))) {
            Err(Error::Interrupted) => {}
            Err(error) => panic!("{error}"),
            Ok(()) => {
                assert!(wait < 50, "it was told to end");
                let added = index.ids().expect("memory").split_off(ids.len());
                assert_eq!(added.len() * DIM, many.len());
                index.remove(&added).expect("they are there");
            }
        }
        assert!(living::ids(&index) == ids && answers(&index, &first) == before, "after {wait} ms");
    }
    // It goes on from there, with the answers of an index that was never interrupted.
    let ids: Vec<u64> = (1 << 40..(1 << 40) + 5000).collect();
    let mut fresh = self::index(device, kind, &first);
    fresh.remove(&(0..1000).step_by(3).collect::<Vec<u64>>()).expect("they are there");
    for index in [&mut index, &mut fresh] {
        living::add(index, view(&many[..5000 * DIM], DIM), Some(&ids)).expect("good rows");
    }
    assert!(answers(&index, &many) == answers(&fresh, &many));
}

/// The GPU has the rows before the copy does: the copy is not interrupted then.
#[test]
fn an_index_and_its_copy_on_the_host_change_together() {
    let Some(device) = Adapter.device() else { return };
    let mut random = Random::new(4);
    let (first, more) = (rows(&mut random, 3000), rows(&mut random, 30_000));
    let builder = Flat::builder(device, Metric::L2Squared, DIM).keep_host_copy(true);
    let mut index = builder.build().expect("an index");
    index.add(view(&first, DIM)).expect("good rows");
    for wait in [55, 50, 49, 47, 40, 30, 20, 0] {
        let len = index.len();
        let result = stopped_after(Duration::from_millis(wait), || index.add(view(&more, DIM)));
        let added = if result.is_ok() { 30_000 } else { 0 };
        assert_eq!(index.len(), len + added);
        // Rows are read from the copy, and searches of many queries go to the GPU.
        let ids = index.ids().expect("memory");
        let last = *ids.last().expect("rows");
        let row = index.get(&[last]).expect("it is there");
        let found = index.search(&row, 40_000.min(index.len())).expect("an answer");
        assert!(found.row(0).iter().any(|hit| hit.id == last && hit.distance == 0.0));
    }
}

#[test_matrix([Host], [Kind::Flat, Kind::Ivf])]
#[test_matrix([Adapter], [Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn every_kind_of_call_looks_at_whether_to_end(engine: Engine, kind: Kind) {
    let Some(device) = engine.device() else { return };
    let rows = rows(&mut Random::new(8), 5000);
    let mut index = index(device, kind, &rows);
    let gone: Vec<u64> = (0..5000).filter(|id| id % 7 == 1).collect();
    index.remove(&gone).expect("they are there");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.nf");
    index.save(&path).expect("it is saved");
    let (saved, bytes) = (std::fs::read(&path).expect("a file"), index.to_bytes().expect("memory"));
    let (ids, before) = (living::ids(&index), answers(&index, &rows));
    let all = view(&rows, DIM);
    let numbers: Vec<u64> = (10_000..15_000).collect();
    let other = self::index(device, kind, &rows[..100 * DIM]);
    let uploaded = device.upload(all).expect("memory");
    let vector = device.upload_vector(&rows[..]).expect("memory");
    let clusters = KMeans::new(Metric::L2, 10).iterations(1).train(device, all).expect("trains");
    let distances = device.distances(&uploaded, &uploaded, Metric::L2, Default::default()).expect("memory");
    let mut is_ended = |what: &str, call: &mut dyn FnMut(&mut Index) -> Result<(), Error>| {
        let result = stopped(|| call(&mut index));
        assert!(matches!(result, Err(Error::Interrupted)), "{what}: {result:?}");
        assert!(living::ids(&index) == ids && answers(&index, &rows) == before, "{what}");
    };
    is_ended("search", &mut |index| index.search(all, 3).map(drop));
    is_ended("search within", &mut |index| index.search_with(all, &SearchOptions::within(2.0)).map(drop));
    is_ended("add", &mut |index| index.add(all));
    is_ended("add with ids", &mut |index| index.add_with(all, &AddOptions::new().ids(&numbers)));
    is_ended("add from the device", &mut |index| index.add(&uploaded));
    is_ended("update", &mut |index| index.update(&ids[..2], view(&rows[..2 * DIM], DIM)));
    is_ended("get", &mut |index| index.get(&ids).map(drop));
    is_ended("save", &mut |index| index.save(&path));
    is_ended("to bytes", &mut |index| index.to_bytes().map(drop));
    is_ended("clone", &mut |index| index.clone_to(device).map(drop));
    is_ended("load", &mut |_| Index::load(device, &path).map(drop));
    is_ended("load bytes", &mut |_| Index::loader(device).load_bytes(&bytes).map(drop));
    is_ended("upload", &mut |_| device.upload(all).map(drop));
    is_ended("upload of a vector", &mut |_| device.upload_vector(&rows[..]).map(drop));
    is_ended("read", &mut |_| device.read(&distances).map(drop));
    is_ended("fetch", &mut |_| uploaded.to_host().map(drop));
    is_ended("nearest", &mut |_| device.nearest(&uploaded, &uploaded, Metric::L2, 2).map(drop));
    is_ended("top k of long rows", &mut |_| device.top_k(view(&rows, rows.len()), 9).map(drop));
    is_ended("top k", &mut |_| device.top_k(&distances, 9).map(drop));
    is_ended("sum", &mut |_| device.reduce().sum(&vector).map(drop));
    is_ended("sum of rows", &mut |_| device.reduce().sum_rows(all).map(drop));
    is_ended("deviation", &mut |_| device.reduce().standard_deviation(&vector).map(drop));
    is_ended("deviation of rows", &mut |_| device.reduce().standard_deviation_rows(all).map(drop));
    is_ended("predict", &mut |_| clusters.predict(device, all).map(drop));
    is_ended("train", &mut |_| KMeans::new(Metric::L2, 10).train(device, all).map(drop));
    assert!(
        std::fs::read(&path).expect("a file") == saved,
        "an interrupted save leaves the file that was there"
    );
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "and none beside it");
    // On a GPU it submits its few pieces without waiting.
    let result = stopped(|| index.compact());
    assert!(engine == Adapter || matches!(result, Err(Error::Interrupted)), "compact: {result:?}");
    let result = stopped(|| index.merge(&other));
    assert!(matches!(result, Err(Error::DuplicateId { .. })), "arguments are checked first: {result:?}");
    assert!(living::ids(&index) == ids && answers(&index, &rows) == before);
}

#[test_matrix([Adapter, Host] => ignore["nightly"])]
fn a_short_call_asks_nothing_and_a_future_asks_nothing_either(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = rows(&mut Random::new(9), 500);
    let index = index(device, Kind::Flat, &rows);
    // Kernels are compiled by then.
    index.warm_up().expect("it is ready");
    let answer = || index.search(view(&rows[..DIM], DIM), 3).expect("an answer");
    let before = answer();
    let asked = Rc::new(Cell::new(0));
    // On a busy machine a short call may take long.
    let is_quiet = (0..100).any(|_| {
        let (hook, started, calls) = (asked.clone(), Instant::now(), asked.get());
        let hook = move || {
            hook.set(hook.get() + 1);
            true
        };
        assert!(interruptible(hook, answer) == before);
        let is_short = started.elapsed() < Duration::from_millis(50);
        assert!(!is_short || asked.get() == calls, "a short call asked");
        is_short
    });
    assert!(is_quiet, "no call was short");
    let found = stopped(|| pollster::block_on(index.search_async(view(&rows, DIM), 3)));
    assert_eq!(found.expect("futures are not interrupted").queries(), 500);
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn a_hook_that_panics_unwinds_and_leaves_the_index_whole(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = rows(&mut Random::new(10), ROWS);
    let mut index = index(device, Kind::Flat, &rows);
    let (ids, before) = (living::ids(&index), answers(&index, &rows));
    let many: Vec<f32> = (0..20).flat_map(|_| rows.iter().copied()).collect();
    for is_add in [false, true] {
        let ended = Rc::new(Cell::new(None));
        let hook = {
            let ended = ended.clone();
            move || {
                ended.set(Some(Instant::now()));
                panic!("on purpose")
            }
        };
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            interruptible(hook, || {
                // The search asks while it computes, and the add at once.
                std::thread::sleep(Duration::from_millis(if is_add { 55 } else { 0 }));
                match is_add {
                    true => index.add(view(&many, DIM)),
                    false => (0..1000).try_for_each(|_| index.search(view(&many, DIM), 5).map(drop)),
                }
            })
        }));
        let panic = unwound.expect_err("the hook panics");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        // Not from the start: a software driver may be busy with the work of other tests, which this call waits for before it asks.
        let took = ended.get().map(|ended: Instant| ended.elapsed()).expect("it asked");
        assert_soon(took, SOON, "the end of a call whose hook panicked");
        assert!(living::ids(&index) == ids && answers(&index, &rows) == before);
    }
    index.add(view(&rows[..DIM], DIM)).expect("a good row");
}
