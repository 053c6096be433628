//! A change whose future is dropped, at whichever poll, is made or is not made, and the index goes on either way.

mod common;

use std::collections::BTreeMap;
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Random, confined, view};
use nearfield::{Device, Error, Flat, Ivf, Metric, Neighbors, Screen, SearchOptions};

const DIM: usize = 6;
const LISTS: usize = 8;
const ROWS: u64 = 700;

type Rows = BTreeMap<u64, Vec<f32>>;

fn bits(found: &Neighbors) -> Vec<Vec<(u64, u32)>> {
    found.iter().map(|row| row.iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()).collect()
}

/// Polls so often, and drops the future where it was not ready by then.
fn polled<T>(future: impl Future<Output = Result<T, Error>>, times: usize) -> bool {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            result.expect("nothing is wrong with the change");
            return true;
        }
        // So that the device is done, mostly, and the next poll gets further.
        std::thread::sleep(Duration::from_millis(3));
    }
    false
}

fn flat_of(device: &Device, screen: Screen, rows: &Rows) -> Flat {
    let mut index = Flat::builder(device, Metric::L2, DIM).screen(screen).build().expect("an index");
    let (ids, values) = parts(rows);
    index.add_with_ids(view(&values, DIM), &ids).expect("good rows");
    index
}

/// The same centroids each time: training is of the same sample with the same seed.
fn ivf_of(device: &Device, screen: Screen, rows: &Rows) -> Ivf {
    let sample = Random::new(0x5a).integers(200 * DIM, 3);
    let builder = Ivf::builder(device, Metric::L2, DIM).lists(LISTS).screen(screen);
    let mut index = builder.train(view(&sample, DIM)).expect("trains");
    let (ids, values) = parts(rows);
    index.add_with_ids(view(&values, DIM), &ids).expect("good rows");
    index
}

fn parts(rows: &Rows) -> (Vec<u64>, Vec<f32>) {
    (rows.keys().copied().collect(), rows.values().flatten().copied().collect())
}

/// Both indexes have these methods, of the same names.
macro_rules! dropped_at_every_poll {
    ($make:ident, $screen:expr) => {
        let Some(device) = confined(256 * 32, 2 << 20) else { return };
        let mut random = Random::new(0xd0);
        let values = random.integers(ROWS as usize * DIM, 3);
        let all: Rows = (0..ROWS).zip(values.chunks(DIM).map(<[f32]>::to_vec)).collect();
        // Gaps, for `add` to use again and for `compact` to fill.
        let gone: Vec<u64> = (0..ROWS).filter(|id| id % 3 == 1).collect();
        let mut before = all.clone();
        before.retain(|id, _| id % 3 != 1);
        let more = random.integers(300 * DIM, 3);
        let queries = random.integers(70 * DIM, 3);
        let options = [LISTS, 2].map(|probes| SearchOptions::new(9).probes(probes));
        for change in ["add", "remove", "update", "compact"] {
            let mut after = before.clone();
            match change {
                "add" => after.extend((ROWS..).zip(more.chunks(DIM).map(<[f32]>::to_vec))),
                "remove" => after.retain(|id, _| id % 2 == 0),
                "update" => drop(after.insert(5, vec![2.0; DIM])),
                _ => {}
            }
            let leaving: Vec<u64> = before.keys().copied().filter(|id| id % 2 == 1).collect();
            let mut times = 0;
            let mut is_done = false;
            while !is_done {
                assert!(times < 2000, "{change} never ends");
                let said = format!("{change} after {times} polls");
                let mut index = $make(&device, $screen, &all);
                index.remove(&gone).expect("they are there");
                is_done = match change {
                    "add" => polled(index.add_async(view(&more, DIM)), times),
                    "remove" => polled(index.remove_async(&leaving), times),
                    "update" => polled(index.update_async(5, &[2.0f32; DIM]), times),
                    _ => polled(index.compact_async(), times),
                };
                // A change may be made before its future is ready: what comes behind it can be dropped.
                let is_made = match change {
                    "update" => index.get(5).expect("it is there") == vec![2.0; DIM],
                    _ => index.len() == after.len(),
                };
                assert!(is_made || !is_done, "{said}");
                let mut rows = if is_made { after.clone() } else { before.clone() };
                let (ids, _) = parts(&rows);
                assert!(index.ids().eq(ids.iter().copied()), "{said}");
                let few = view(&queries[..3 * DIM], DIM);
                let many = view(&queries, DIM);
                let exact = flat_of(&device, Screen::None, &rows);
                for some in [few, many] {
                    let found = index.search_with(some, &options[0]).expect("an answer").0;
                    let wanted = exact.search_with(some, &options[0]).expect("an answer").0;
                    assert_eq!(bits(&found), bits(&wanted), "{said}");
                }
                // The next change goes on from there, and few probes answer as of a fresh index.
                index
                    .add_with_ids(view(&more[..40 * DIM], DIM), &(5000..5040).collect::<Vec<u64>>())
                    .expect(&said);
                rows.extend((5000..5040).zip(more.chunks(DIM).map(<[f32]>::to_vec)));
                let fresh = $make(&device, $screen, &rows);
                for some in [few, many] {
                    for options in &options {
                        let found = index.search_with(some, options).expect("an answer").0;
                        let wanted = fresh.search_with(some, options).expect("an answer").0;
                        assert_eq!(bits(&found), bits(&wanted), "{said}, and an add");
                    }
                }
                times += 1;
            }
            println!("{change} is ready at poll {}", times - 1);
        }
    };
}

#[test]
fn a_change_of_flat_that_is_dropped_at_any_poll_is_made_or_not() {
    dropped_at_every_poll!(flat_of, Screen::I8);
}

#[test]
fn a_change_of_ivf_that_is_dropped_at_any_poll_is_made_or_not() {
    dropped_at_every_poll!(ivf_of, Screen::I8);
}
