//! Many callers of one index: each has the answers that it would have alone, and its own errors.

use std::future::Future;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::Engine::{self, Adapter, Host};
use crate::common::options;
use crate::support::run_within;
use nearfield::{
    Device, ElementKind, Error, Filter, Flat, Index, MatrixView, Metric, Quantization, SearchOptions,
    interruptible,
};
use nearfield_testing::living::{Kind, bits};
use nearfield_testing::{Random, view};
use rayon::prelude::*;
use test_case::test_matrix;

const DIM: usize = 20;
const QUERIES: usize = 24;
const THREADS: usize = 8;

type Bits = Vec<Vec<(u64, u32)>>;

/// Rows of the test index. The host engine joins searches only where one search takes all threads, which needs more rows.
fn row_count(engine: Engine) -> usize {
    match engine {
        Adapter => 5000,
        Host => 4 * 4096 * rayon::current_num_threads() + 100,
    }
}

/// An index of random rows on a device, and queries.
fn made(device: &Device, kind: Kind, rows: usize) -> (Index, Vec<f32>) {
    let mut random = Random::new(0xca11);
    let mut index = kind.make(device, Metric::L2, DIM, ElementKind::F32, Quantization::Auto);
    index.add(view(&random.floats(rows * DIM), DIM)).expect("good rows");
    (index, random.floats(QUERIES * DIM))
}

fn given(engine: Engine, kind: Kind) -> Option<(Index, Vec<f32>)> {
    Some(made(engine.device()?, kind, row_count(engine)))
}

/// The search of one caller: a few queries from `first` on.
#[derive(Clone, Copy)]
struct Ask {
    first: usize,
    count: usize,
    k: usize,
    probes: usize,
}

/// Every caller asks for one of these, so that most can be searched for together.
fn asks() -> Vec<Ask> {
    let kinds = [(10, 3), (10, 3), (10, 3), (4, 5)];
    let asks = (0..QUERIES - 3).map(|first| {
        let (k, probes) = kinds[first % kinds.len()];
        Ask { first, count: if first % 5 == 4 { 3 } else { 1 }, k, probes }
    });
    asks.collect()
}

impl Ask {
    fn queries(self, queries: &[f32]) -> MatrixView<'_, f32> {
        view(&queries[self.first * DIM..(self.first + self.count) * DIM], DIM)
    }

    fn options(self, index: &Index) -> SearchOptions<'static> {
        let options = SearchOptions::new(self.k);
        if index.lists().is_some() { options.probes(self.probes) } else { options }
    }

    fn answer(self, index: &Index, queries: &[f32]) -> Bits {
        let found = index.search_with(self.queries(queries), &self.options(index)).expect("an answer");
        assert!(found.statistics.scored > 0);
        bits(&found.neighbors)
    }
}

/// What each caller would be told alone.
fn answers(index: &Index, queries: &[f32]) -> Vec<Bits> {
    asks().iter().map(|ask| ask.answer(index, queries)).collect()
}

/// Polls a future some times, then drops it unless it is ready.
fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return Some(value),
            Poll::Pending => std::thread::sleep(Duration::from_micros(300)),
        }
    }
    None
}

/// Searches of each thread at least.
const SEARCHES: usize = 40;

/// When callers have searched enough.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// After [`SEARCHES`].
    Done,
    /// After these, and as soon as some were searched for together.
    Joined,
}

/// Searches from many threads: blocking calls, futures, futures that are dropped, and calls that are told to end, whether they wait, lead
/// a joint search or compute. The number of searches that others had a part in, and of those that were interrupted.
fn load(index: &RwLock<Index>, queries: &[f32], wanted: &[Bits], until: Until) -> [u64; 2] {
    let (joined, interrupted) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (joined, interrupted) = (&joined, &interrupted);
            scope.spawn(move || {
                let mut random = Random::new(thread as u64);
                let (mut searches, is_told_to_end) = (0, thread % 4 == 2 && until == Until::Joined);
                let least = if is_told_to_end { SEARCHES / 4 } else { SEARCHES };
                while searches < least || until == Until::Joined && joined.load(Ordering::Relaxed) == 0 {
                    searches += 1;
                    let index = index.read().expect("no panic");
                    let number = random.below(wanted.len());
                    let ask = asks()[number];
                    let options = ask.options(&index);
                    let later = index.search_with_async(ask.queries(queries), &options);
                    let search = || index.search_with(ask.queries(queries), &options);
                    let found = match thread % 4 {
                        0 => match polled(later, random.below(6)) {
                            Some(found) => found,
                            None => continue,
                        },
                        1 => pollster::block_on(later),
                        _ if is_told_to_end => {
                            // A call asks whether to end 50 ms after this.
                            let wait = Duration::from_micros(48_000 + random.below(4000) as u64);
                            interruptible(
                                || false,
                                || {
                                    std::thread::sleep(wait);
                                    search()
                                },
                            )
                        }
                        _ => search(),
                    };
                    if is_told_to_end && matches!(found, Err(Error::Interrupted)) {
                        interrupted.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let found = found.expect("an answer");
                    joined.fetch_add(u64::from(found.statistics.joined > 0), Ordering::Relaxed);
                    assert_eq!(bits(&found.neighbors), wanted[number], "ask {number}");
                }
            });
        }
    });
    [joined, interrupted].map(AtomicU64::into_inner)
}

#[test_matrix([Host], [Kind::Flat, Kind::Ivf])]
#[test_matrix([Adapter], [Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn answers_are_those_of_a_search_alone_under_load_and_through_changes(engine: Engine, kind: Kind) {
    let Some((index, queries)) = given(engine, kind) else { return };
    let index = RwLock::new(index);
    let mut interrupted = 0;
    for phase in 0..3u64 {
        let wanted = answers(&index.read().expect("no panic"), &queries);
        interrupted += load(&index, &queries, &wanted, Until::Joined)[1];
        let mut index = index.write().expect("no panic");
        // No search is left over from callers who dropped theirs, or were interrupted.
        index.remove(&(phase * 40..phase * 40 + 40).collect::<Vec<u64>>()).expect("they are there");
        index.add(view(&Random::new(phase).floats(60 * DIM), DIM)).expect("good rows");
    }
    assert!(interrupted > 0, "no call was told to end in time");
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn rows_are_added_while_others_search(engine: Engine) {
    let Some((index, queries)) = given(engine, Kind::Flat) else { return };
    let wanted = answers(&index, &queries);
    let index = RwLock::new(index);
    let is_over = AtomicBool::new(false);
    let mut added = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            load(&index, &queries, &wanted, Until::Joined);
            is_over.store(true, Ordering::Relaxed);
        });
        // So far away that no answer changes.
        let far = [1000.0f32; DIM];
        while !is_over.load(Ordering::Relaxed) || added < 3 {
            index.write().expect("no panic").add(&far).expect("a good row");
            added += 1;
        }
    });
    assert_eq!(index.into_inner().expect("no panic").len(), row_count(engine) + added);
}

#[test_matrix([Adapter, Host])]
fn an_error_stays_its_callers(engine: Engine) {
    let Some((index, queries)) = given(engine, Kind::Flat) else { return };
    let wanted = answers(&index, &queries);
    let mut wrong = queries[..3 * DIM].to_vec();
    wrong[2 * DIM + 1] = f32::NAN;
    let mut long = queries[..2 * DIM].to_vec();
    long[DIM] = 1e30;
    let index = RwLock::new(index);
    std::thread::scope(|scope| {
        let (index, wrong, long) = (&index, &wrong, &long);
        scope.spawn(|| load(index, &queries, &wanted, Until::Done));
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..30 {
                    let index = index.read().expect("no panic");
                    let error = index.search(view(wrong, DIM), 10).expect_err("a NaN");
                    assert!(matches!(error, Error::NotFinite { argument: "queries", row: 2 }), "{error}");
                    let error = index.search(view(long, DIM), 10).expect_err("a long query");
                    assert!(
                        matches!(error, Error::NormOutOfRange { argument: "queries", row: 1 }),
                        "{error}"
                    );
                    assert!(index.search(view(wrong, DIM), 0).is_err());
                }
            });
        }
    });
}

#[test_matrix([Adapter, Host])]
fn other_searches_run_beside(engine: Engine) {
    let Some((index, queries)) = given(engine, Kind::Flat) else { return };
    let allowed: Vec<u64> = (0..row_count(engine) as u64).step_by(3).collect();
    let ask = asks()[0];
    let progress = |_: usize| {};
    let options = [
        SearchOptions::new(10).filter(Filter::ids(&allowed)),
        SearchOptions::new(10).profile(true),
        SearchOptions::new(10).progress(&progress),
    ];
    let search = |options: &SearchOptions<'_>| {
        let found = index.search_with(ask.queries(&queries), options).expect("an answer");
        assert_eq!(found.statistics.joined, 0);
        bits(&found.neighbors)
    };
    let wanted: Vec<Bits> = options.iter().map(search).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| drop(ask.answer(&index, &queries))));
        }
        for _ in 0..10 {
            assert_eq!(options.iter().map(search).collect::<Vec<Bits>>(), wanted);
        }
    });
}

/// Where one thread answers a search, or the device is told so. The queue is the same on every engine.
#[test]
fn searches_run_side_by_side_where_joining_does_not_pay() {
    let told = Host.open(options().join_searches(false)).expect("the host is always there");
    for (device, rows) in [(&Device::host(), 500), (&told, row_count(Host))] {
        let (index, queries) = made(device, Kind::Flat, rows);
        let wanted = answers(&index, &queries);
        assert_eq!(load(&RwLock::new(index), &queries, &wanted, Until::Done)[0], 0, "{rows} rows");
    }
}

#[test]
#[ignore = "nightly"]
fn a_budget_too_small_for_two_searches_is_enough_for_each() {
    let Some(device) = Adapter.device() else { return };
    let mut random = Random::new(0xb0d);
    let (rows, queries) = (random.floats(5000 * DIM), random.floats(QUERIES * DIM));
    let build = |budget| {
        let mut index = Flat::builder(device, Metric::L2, DIM).budget(budget).build()?;
        index.add(view(&rows, DIM))?;
        index.search(asks()[0].queries(&queries), 10)?;
        Ok(Index::from(index))
    };
    let (index, budget) = run_within(1000, 20, build);
    assert!(build(budget / 2).is_err());
    let wanted = answers(&index, &queries);
    assert_eq!(load(&RwLock::new(index), &queries, &wanted, Until::Done)[0], 0);
}

/// A thread of the pool that searches on the host may take up another search in the middle of the first.
#[test_matrix([Adapter, Host])]
fn tasks_of_a_thread_pool_search_beside_the_others(engine: Engine) {
    let Some((index, queries)) = given(engine, Kind::Flat) else { return };
    let wanted = answers(&index, &queries);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..40).for_each(|_| assert_eq!(asks()[0].answer(&index, &queries), wanted[0])));
        }
        (0..120usize).into_par_iter().for_each(|number| {
            let number = number % wanted.len();
            assert_eq!(asks()[number].answer(&index, &queries), wanted[number]);
        });
    });
}

#[test]
#[ignore = "nightly"]
fn a_search_that_was_forgotten_midway_is_named_by_the_next_change() {
    let Some((mut index, queries)) = given(Adapter, Kind::Flat) else { return };
    let query = &queries[..DIM];
    let many = queries[..20 * DIM].repeat(10);
    let mut first = Box::pin(index.search_async(view(&many, DIM), 5));
    let mut waiting = Box::pin(index.search_async(query, 5));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(context).is_pending());
    // One query waits for two hundred, and is then searched for as a batch.
    assert!(waiting.as_mut().poll(context).is_pending());
    pollster::block_on(first).expect("an answer");
    if waiting.as_mut().poll(context).is_ready() {
        return;
    }
    std::mem::forget(waiting);
    let error = index.add(&[0.5f32; DIM]).expect_err("a search has the rows");
    assert!(error.to_string().contains("forgotten"), "{error}");
    assert_eq!(index.search(query, 5).expect("it still answers").row(0).len(), 5);
}
