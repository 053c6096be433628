//! One life for both indexes: after any interleaving of changes, filters, saves and loads, an index answers bit for bit as a fresh
//! one of the rows that are left.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{Random, confined, rounded, view};
use nearfield::{
    Device, DeviceMatrix, ElementKind, Error, Filter, Flat, Ivf, MatrixView, Metric, Neighbors, Screen,
    SearchOptions,
};

const DIM: usize = 6;
const LISTS: usize = 12;
const OPERATIONS: usize = 150;

/// The most that values are, either way: small, so that many distances are equal.
const MOST: usize = 3;

/// What is the same of `Flat` and `Ivf`.
trait Living: Sized {
    fn load(device: &Device, path: &PathBuf) -> Result<Self, Error>;
    fn save(&self, path: &PathBuf) -> Result<(), Error>;
    fn add<T: nearfield::Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        ids: Option<&[u64]>,
    ) -> Result<(), Error>;
    fn add_device(&mut self, rows: &DeviceMatrix, ids: Option<&[u64]>) -> Result<(), Error>;
    fn remove(&mut self, ids: &[u64]) -> Result<(), Error>;
    fn update<T: nearfield::Element>(&mut self, id: u64, row: &[T]) -> Result<(), Error>;
    fn compact(&mut self) -> Result<(), Error>;
    fn get(&self, id: u64) -> Result<Vec<f32>, Error>;
    fn ids(&self) -> Vec<u64>;
    fn answer(&self, queries: &[f32], options: &SearchOptions<'_>) -> Neighbors;
}

macro_rules! living {
    ($index:ident) => {
        impl Living for $index {
            fn load(device: &Device, path: &PathBuf) -> Result<Self, Error> {
                $index::load(device, path)
            }
            fn save(&self, path: &PathBuf) -> Result<(), Error> {
                self.save(path)
            }
            fn add<T: nearfield::Element>(
                &mut self,
                rows: MatrixView<'_, T>,
                ids: Option<&[u64]>,
            ) -> Result<(), Error> {
                match ids {
                    Some(ids) => self.add_with_ids(rows, ids),
                    None => self.add(rows),
                }
            }
            fn add_device(&mut self, rows: &DeviceMatrix, ids: Option<&[u64]>) -> Result<(), Error> {
                match ids {
                    Some(ids) => self.add_device_with_ids(rows, ids),
                    None => self.add_device(rows),
                }
            }
            fn remove(&mut self, ids: &[u64]) -> Result<(), Error> {
                self.remove(ids)
            }
            fn update<T: nearfield::Element>(&mut self, id: u64, row: &[T]) -> Result<(), Error> {
                self.update(id, row)
            }
            fn compact(&mut self) -> Result<(), Error> {
                self.compact()
            }
            fn get(&self, id: u64) -> Result<Vec<f32>, Error> {
                self.get(id)
            }
            fn ids(&self) -> Vec<u64> {
                assert_eq!(self.len(), self.ids().count());
                self.ids().collect()
            }
            fn answer(&self, queries: &[f32], options: &SearchOptions<'_>) -> Neighbors {
                self.search_with(view(queries, DIM), options).expect("an answer").0
            }
        }
    };
}
living!(Flat);
living!(Ivf);

fn bits(found: &Neighbors) -> Vec<Vec<(u64, u32)>> {
    found.iter().map(|row| row.iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()).collect()
}

/// What an index should hold.
struct Life<'d> {
    device: &'d Device,
    metric: Metric,
    elements: ElementKind,
    /// An index without rows: `Ivf`s that are loaded of it have the same centroids.
    empty: PathBuf,
    saved: PathBuf,
    rows: BTreeMap<u64, Vec<f32>>,
    /// Rows that were ever added.
    inserted: u64,
    random: Random,
}

impl Life<'_> {
    fn add(&self, index: &mut impl Living, rows: &[f32], ids: Option<&[u64]>) -> Result<(), Error> {
        match self.elements {
            ElementKind::F32 => index.add(view(rows, DIM), ids),
            ElementKind::F16 => index.add(view(&rounded(rows).0, DIM), ids),
        }
    }

    fn some_ids(&mut self, every: usize) -> Vec<u64> {
        let ids: Vec<u64> = self.rows.keys().copied().collect();
        ids.into_iter().filter(|_| self.random.below(every) == 0).collect()
    }

    /// Rows under their numbers, or under ids of which some were there before; from the host or the device.
    fn grow(&mut self, index: &mut impl Living, is_numbered: bool) {
        let count = [1, 7, 40, 200][self.random.below(4)];
        let mut ids: Vec<u64> = (self.inserted..self.inserted + count).collect();
        if !is_numbered {
            let taken = &self.rows;
            let random = &mut self.random;
            ids = ids.iter().map(|_| [random.next() >> 1, random.next() % 2000][random.below(2)]).collect();
            let mut seen = std::collections::BTreeSet::new();
            ids.retain(|id| !taken.contains_key(id) && seen.insert(*id));
        }
        let given = (!is_numbered).then_some(&ids[..]);
        let rows = self.random.integers(ids.len() * DIM, MOST);
        let is_on_device = self.elements == ElementKind::F32 && self.random.below(3) == 0 && !ids.is_empty();
        let result = if is_on_device {
            let uploaded = self.device.upload(view(&rows, DIM)).expect("good rows");
            index.add_device(&uploaded, given)
        } else {
            self.add(index, &rows, given)
        };
        match (result, ids.iter().find(|id| self.rows.contains_key(id))) {
            (Ok(()), None) => {
                self.inserted += ids.len() as u64;
                self.rows.extend(ids.into_iter().zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
            }
            (Err(Error::DuplicateId { id }), Some(&taken)) => assert_eq!(id, taken),
            (result, taken) => panic!("{result:?}, {taken:?} is taken"),
        }
    }

    /// One random operation; says which.
    fn change<I: Living>(&mut self, index: &mut I) -> &'static str {
        match self.random.below(11) {
            0..3 => {
                self.grow(index, true);
                "add"
            }
            3 | 4 => {
                self.grow(index, false);
                "add_with_ids"
            }
            5 | 6 => {
                let every = [2, 3, 20][self.random.below(3)];
                let gone = self.some_ids(every);
                index.remove(&gone).expect("they are there");
                gone.iter().for_each(|id| drop(self.rows.remove(id)));
                "remove"
            }
            7 | 8 => {
                for id in self.some_ids(30).into_iter().take(3) {
                    let row = self.random.integers(DIM, MOST);
                    match self.elements {
                        ElementKind::F32 => index.update(id, &row),
                        ElementKind::F16 => index.update(id, &rounded(&row).0),
                    }
                    .expect("it is there");
                    self.rows.insert(id, row);
                }
                "update"
            }
            9 => {
                index.compact().expect("it is compacted");
                "compact"
            }
            _ => {
                index.save(&self.saved).expect("it is saved");
                *index = I::load(self.device, &self.saved).expect("it is loaded");
                "save and load"
            }
        }
    }

    /// Rows in another order than they came, so that their slots have nothing in common.
    fn fill<I: Living>(&self, mut index: I) -> I {
        let ids: Vec<u64> = self.rows.keys().rev().copied().collect();
        let rows: Vec<f32> = self.rows.values().rev().flatten().copied().collect();
        self.add(&mut index, &rows, Some(&ids)).expect("good rows");
        index
    }

    /// The index answers as fresh ones, without a filter and with one of each kind.
    fn check<I: Living>(&mut self, index: &I) {
        assert!(index.ids().iter().eq(self.rows.keys()), "ids");
        if let Some(&id) = self.some_ids(20).first() {
            assert_eq!(index.get(id).expect("it is there"), self.rows[&id], "row {id}");
        }
        let builder = Flat::builder(self.device, self.metric, DIM).screen(Screen::None);
        let exact = self.fill(builder.elements(self.elements).build().expect("an index"));
        let same = self.fill(I::load(self.device, &self.empty).expect("it is loaded"));
        let share = [0, 1, 5, 30, 100][self.random.below(5)];
        let mut ids = self.some_ids(1);
        ids.retain(|_| self.random.below(100) < share);
        // Of those that are not there, too.
        ids.push(u64::MAX);
        let mut words = vec![0u64; 40];
        ids.iter().filter(|&&id| id < 40 * 64).for_each(|id| words[*id as usize / 64] |= 1 << (id % 64));
        let is_allowed = |id: u64| id % 100 < share as u64;
        let filters =
            [None, Some(Filter::ids(&ids)), Some(Filter::bits(&words)), Some(Filter::by(&is_allowed))];
        // By candidates, and list by list.
        for count in [3, 70] {
            let queries = self.random.integers(count * DIM, MOST);
            for number in [0, 1 + self.random.below(3)] {
                let filter = &filters[number];
                let k = [1, 9, 30][self.random.below(3)];
                let mut options = SearchOptions::new(k);
                if let Some(filter) = filter {
                    options = options.filter(*filter);
                }
                let said = format!("{count} queries, k {k}, filter {number} of {share} in 100");
                let all = options.clone().probes(LISTS);
                assert_eq!(
                    bits(&index.answer(&queries, &all)),
                    bits(&exact.answer(&queries, &all)),
                    "{said}"
                );
                let few = options.probes(1 + self.random.below(LISTS - 1));
                assert_eq!(
                    bits(&index.answer(&queries, &few)),
                    bits(&same.answer(&queries, &few)),
                    "{said}, few probes"
                );
            }
        }
    }
}

/// The operation that was under way when a test panicked.
struct Said {
    seed: u64,
    operation: usize,
    name: &'static str,
}

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {:#x}, operation {} after {}", self.seed, self.operation, self.name);
        }
    }
}

fn lives<I: Living>(
    make: impl Fn(&Device, Metric, ElementKind, Screen) -> I,
    cases: [(Metric, ElementKind, Screen); 3],
    seed: u64,
) {
    // 128 rows a segment, and room to train centroids.
    let Some(device) = confined(128 * 32, 4 << 20) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (metric, elements, screen)) in cases.into_iter().enumerate() {
        let seed = seed + number as u64;
        let empty = folder.path().join("empty.nf");
        let mut index = make(&device, metric, elements, screen);
        index.save(&empty).expect("it is saved");
        let mut life = Life {
            device: &device,
            metric,
            elements,
            empty,
            saved: folder.path().join("saved.nf"),
            rows: BTreeMap::new(),
            inserted: 0,
            random: Random::new(seed),
        };
        let mut said = Said { seed, operation: 0, name: "nothing" };
        for operation in 0..OPERATIONS {
            said.operation = operation;
            said.name = life.change(&mut index);
            if operation % 12 == 11 {
                life.check(&index);
            }
        }
        life.check(&index);
    }
}

const CASES: [(Metric, ElementKind, Screen); 3] = [
    (Metric::L2, ElementKind::F32, Screen::I8),
    (Metric::InnerProduct, ElementKind::F16, Screen::None),
    (Metric::Cosine, ElementKind::F16, Screen::I8),
];

fn flat(device: &Device, metric: Metric, elements: ElementKind, screen: Screen) -> Flat {
    Flat::builder(device, metric, DIM).elements(elements).screen(screen).build().expect("an index")
}

fn ivf(device: &Device, metric: Metric, elements: ElementKind, screen: Screen) -> Ivf {
    let sample = Random::new(0x5a).integers(400 * DIM, MOST);
    let builder = Ivf::builder(device, metric, DIM).lists(LISTS).elements(elements).screen(screen);
    builder.train(view(&sample, DIM)).expect("trains")
}

#[test]
fn after_any_life_a_flat_answers_as_a_fresh_one() {
    lives(flat, CASES, 0x11fe);
}

#[test]
fn after_any_life_an_ivf_answers_as_flat_and_as_a_fresh_one_of_its_centroids() {
    lives(ivf, CASES, 0x21fe);
}
