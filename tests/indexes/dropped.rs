//! A change whose future is dropped, after any poll, either happened or did not, and the index works on.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::living::{self, Kind, LISTS, MOST, answer, bits};
use crate::common::{Random, confined, gpu, view};
use nearfield::{Device, DeviceMatrix, ElementKind, Error, Index, Metric, Screen, SearchOptions};

const DIM: usize = 6;

/// So many that an index compacts itself where more than 30% of the slots are free.
const ROWS: u64 = 4500;

type Rows = BTreeMap<u64, Vec<f32>>;
type Answers = Vec<Vec<Vec<(u64, u32)>>>;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Add,
    AddDevice,
    Remove,
    Update,
    Compact,
}

/// What changes are made of.
struct Given {
    more: Vec<f32>,
    uploaded: DeviceMatrix,
    leaving: Vec<u64>,
}

/// What the row with this id becomes.
const UPDATED: (u64, [f32; DIM]) = (6, [2.0; DIM]);

async fn change(index: &mut Index, change: Change, given: &Given) -> Result<(), Error> {
    match change {
        Change::Add => index.add_async(view(&given.more, DIM)).await,
        Change::AddDevice => index.add_async(&given.uploaded).await,
        Change::Remove => index.remove_async(&given.leaving).await,
        Change::Update => index.update_async(&[UPDATED.0], &UPDATED.1).await,
        Change::Compact => index.compact_async().await,
    }
}

/// Searches that are not gone on with. They have scratch memory, and others of them wait for some: who comes then waits behind them.
struct Holding<'a>(
    #[expect(dead_code, reason = "kept, not looked at")] Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>,
);

impl<'a> Holding<'a> {
    fn new(other: &'a Index, queries: &'a [f32]) -> Self {
        let mut held: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>> = vec![];
        for _ in 0..200 {
            let mut search = Box::pin(async move {
                other.search_async(view(queries, DIM), 12).await.expect("an answer");
            });
            // One that is answered at once, because the device was so quick, holds nothing.
            if poll_once(search.as_mut()).is_pending() {
                held.push(search);
            }
            if held.len() == 4 {
                break;
            }
        }
        assert_eq!(held.len(), 4, "searches wait for the device");
        Self(held)
    }
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What an index has and answers, and what it answers when more rows were added.
#[derive(Clone)]
struct Wanted {
    ids: Vec<u64>,
    answers: Answers,
    later: Answers,
}

/// A place where changes are dropped, and what it takes.
struct Place<'d> {
    device: &'d Device,
    /// What scratch memory is held with.
    other: Index,
    queries: Vec<f32>,
    given: Given,
    all: PathBuf,
    empty: PathBuf,
}

impl Place<'_> {
    /// Polls so often, and drops the future where it was not ready by then. It waits for scratch memory whenever it needs some, until the
    /// next poll: what has it is dropped then, and what waits next came later.
    fn polled(&self, future: impl Future<Output = Result<(), Error>>, times: usize) -> bool {
        let mut future = pin!(future);
        let mut holding = Holding::new(&self.other, &self.queries);
        for _ in 0..times {
            if let Poll::Ready(result) = poll_once(future.as_mut()) {
                result.expect("nothing is wrong with the change");
                return true;
            }
            let next = Holding::new(&self.other, &self.queries);
            drop(std::mem::replace(&mut holding, next));
            // So that the device is done, mostly, and the next poll gets further.
            std::thread::sleep(Duration::from_millis(3));
        }
        false
    }

    /// Of few queries and of many, with all probes and with few.
    fn answers(&self, index: &Index) -> Answers {
        let queries = view(&self.queries[..70 * DIM], DIM);
        let asked = [(queries.slice(0..3), LISTS), (queries.slice(0..3), 2), (queries, 2)];
        let answer = |(some, probes)| bits(&answer(index, some, &SearchOptions::new(9), probes));
        asked.into_iter().map(answer).collect()
    }

    /// What fresh indexes answer.
    fn wanted(&self, mut rows: Rows, extra: &Rows) -> Wanted {
        let fresh = |rows: &Rows| {
            let mut fresh = Index::load(self.device, &self.empty).expect("it is loaded");
            let (ids, values): (Vec<u64>, Vec<&[f32]>) = rows.iter().map(|(&id, row)| (id, &row[..])).unzip();
            living::add(&mut fresh, view(&values.concat(), DIM), Some(&ids)).expect("good rows");
            self.answers(&fresh)
        };
        let (ids, answers) = (rows.keys().copied().collect(), fresh(&rows));
        rows.extend(extra.clone());
        Wanted { ids, answers, later: fresh(&rows) }
    }

    /// Whether nothing is left to compact: what moves rows waits for scratch memory.
    fn is_compact(&self, index: &mut Index) -> bool {
        self.polled(change(index, Change::Compact, &self.given), 1)
    }
}

/// `waits` says how often each change waits for scratch memory at least.
fn dropped_at_every_poll(kind: Kind, budget: u64, waits: [usize; 5]) {
    let (Some(roomy), Some(device)) = (gpu(), confined(2048 * 32, budget)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [all_path, empty] = ["all.nf", "empty.nf"].map(|name| folder.path().join(name));
    let mut random = Random::new(0xd0);
    let values = random.integers(ROWS as usize * DIM, MOST);
    let more = random.integers(300 * DIM, MOST);
    let queries = random.integers(1000 * DIM, MOST);
    // Centroids are trained where there is room for it.
    let mut index = kind.make(roomy, Metric::L2, DIM, ElementKind::F32, Screen::I8);
    index.save(&empty).expect("it is saved");
    index.add(view(&values, DIM)).expect("good rows");
    index.save(&all_path).expect("it is saved");
    // Gaps, for `add` to use again and for `compact` to fill.
    let gone: Vec<u64> = (0..ROWS).filter(|id| id % 4 == 1).collect();
    let rows = (0..ROWS).zip(values.chunks(DIM).map(<[f32]>::to_vec));
    let before: Rows = rows.filter(|(id, _)| id % 4 != 1).collect();
    let mut other = Kind::Flat.make(&device, Metric::L2, DIM, ElementKind::F32, Screen::None);
    other.add(view(&values[..40 * DIM], DIM)).expect("good rows");
    let uploaded = device.upload(view(&more, DIM)).expect("good rows");
    let leaving = before.keys().copied().filter(|id| id % 4 == 3).collect();
    let given = Given { more: more.clone(), uploaded, leaving };
    let place = Place { device: &device, other, queries, given, all: all_path, empty };
    let extra: Rows = (5000..5040).zip(more.chunks(DIM).map(<[f32]>::to_vec)).collect();
    let extra_ids: Vec<u64> = extra.keys().copied().collect();
    let unchanged = place.wanted(before.clone(), &extra);
    let changes = [Change::Add, Change::AddDevice, Change::Remove, Change::Update, Change::Compact];
    for (change, waits) in changes.into_iter().zip(waits) {
        let mut after = before.clone();
        match change {
            Change::Add | Change::AddDevice => {
                after.extend((ROWS..).zip(more.chunks(DIM).map(<[f32]>::to_vec)));
            }
            Change::Remove => after.retain(|id, _| id % 4 != 3),
            Change::Update => drop(after.insert(UPDATED.0, UPDATED.1.to_vec())),
            Change::Compact => {}
        }
        let wanted = [unchanged.clone(), place.wanted(after, &extra)];
        let mut times = 0;
        let mut drops = [0, 0];
        loop {
            assert!(times < 200, "{change:?} never ends");
            let said = format!("{change:?} after {times} polls");
            let mut index = Index::load(&device, &place.all).expect("it is loaded");
            index.remove(&gone).expect("they are there");
            let is_done = place.polled(self::change(&mut index, change, &place.given), times);
            // A change may be made before its future is ready: a removal is, when the index compacts itself.
            let is_made = match change {
                Change::Update => index.get(&[UPDATED.0]).expect("it is there") == UPDATED.1,
                Change::Compact => place.is_compact(&mut index),
                _ => index.len() == wanted[1].ids.len(),
            };
            assert!(is_made || !is_done, "{said}");
            let Wanted { ids, answers, later } = &wanted[usize::from(is_made)];
            assert!(living::ids(&index) == *ids, "{said}");
            assert!(place.answers(&index) == *answers, "{said}");
            if is_done && change == Change::Remove {
                assert!(place.is_compact(&mut index), "it compacted itself");
            }
            // The next change goes on from there.
            living::add(&mut index, view(&more[..40 * DIM], DIM), Some(&extra_ids)).expect(&said);
            assert!(place.answers(&index) == *later, "{said}, and an add");
            if is_done {
                break;
            }
            drops[usize::from(is_made)] += 1;
            times += 1;
        }
        println!("{change:?} is ready at poll {times}; {drops:?} drops before and after it was made");
        assert!(times > waits, "{change:?} did not wait for scratch memory");
        assert!(change != Change::Remove || drops[1] > 0, "no removal was dropped while it compacted");
    }
}

#[test]
fn a_change_of_flat_that_is_dropped_at_any_poll_is_made_or_not() {
    dropped_at_every_poll(Kind::Flat, 512 << 10, [1; 5]);
}

#[test]
fn a_change_of_ivf_that_is_dropped_at_any_poll_is_made_or_not() {
    dropped_at_every_poll(Kind::Ivf, 2 << 20, [2, 2, 1, 2, 1]);
}
