//! The life of an index beside a model of it: random changes, filtered searches, saves and loads. After each check it answers bit for bit
//! like a fresh index of the remaining rows. The fuzz targets use this file too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nearfield::{Device, ElementKind, Error, Filter, Index, Metric, Screen, SearchOptions};

use super::living::{self, Kind, LISTS, MOST, answer, bits};
use super::{Random, rounded, view};

/// Elements of a row.
pub(crate) const DIM: usize = 6;
/// Metric, element type, screen, rows of a segment, KiB of the budget, and rows that an index starts with: it compacts itself only
/// with more than 4,096 slots.
pub(crate) type Case = (Metric, ElementKind, Screen, u64, u64, usize);

pub(crate) const CASES: [Case; 4] = [
    (Metric::L2, ElementKind::F32, Screen::I8, 128, 128, 0),
    (Metric::InnerProduct, ElementKind::F16, Screen::None, 128, 128, 0),
    (Metric::Cosine, ElementKind::F16, Screen::I8, 256, 128, 300),
    (Metric::L2Squared, ElementKind::F32, Screen::None, 4096, 512, 6000),
];

/// The file of an index without rows, in the folder of a life.
pub(crate) const EMPTY: &str = "empty.nf";

/// The rows that an index should hold.
pub(crate) struct Life<'d> {
    device: &'d Device,
    case: Case,
    /// An index without rows: every `Ivf` that is loaded of it has the same centroids.
    empty: PathBuf,
    saved: PathBuf,
    rows: BTreeMap<u64, Vec<f32>>,
    /// The number that the next row has, unless another row has it as its id.
    next: u64,
    pub(crate) random: Random,
}

/// What [`Life::operate`] can do.
pub(crate) const OPERATIONS: usize = 13;

impl<'d> Life<'d> {
    /// Loads an index without rows, and puts the first ones into it.
    pub(crate) fn start(device: &'d Device, case: Case, folder: &Path, seed: u64) -> (Self, Index) {
        let [empty, saved] = [EMPTY, "saved.nf"].map(|name| folder.join(name));
        let mut index = Index::load(device, &empty).expect("it is loaded");
        let (rows, random) = (BTreeMap::new(), Random::new(seed));
        let mut life = Self { device, case, empty, saved, rows, next: 0, random };
        life.grow(&mut index, case.5, true);
        (life, index)
    }

    fn add(&self, index: &mut Index, rows: &[f32], ids: Option<&[u64]>) -> Result<(), Error> {
        match self.case.1 {
            ElementKind::F32 => living::add(index, view(rows, DIM), ids),
            ElementKind::F16 => living::add(index, view(&rounded(rows).0, DIM), ids),
            other => unreachable!("no rows of {other:?}"),
        }
    }

    /// About one in `every` of the ids.
    fn some_ids(&mut self, every: usize) -> Vec<u64> {
        let ids: Vec<u64> = self.rows.keys().copied().collect();
        ids.into_iter().filter(|_| self.random.below(every) == 0).collect()
    }

    /// Ids that are free: of rows that left, far from all others and, seldom, numbers that are still to be given.
    fn free_ids(&mut self, count: usize) -> Vec<u64> {
        let below = self.next + [1, 1, 1, 100][self.random.below(4)];
        let mut any = || [self.random.next() >> 1, self.random.next() % below][self.random.below(2)];
        let ids: BTreeSet<u64> = (0..count).map(|_| any()).collect();
        let mut ids: Vec<u64> = ids.into_iter().filter(|id| !self.rows.contains_key(id)).collect();
        // In no order.
        ids.sort_unstable_by_key(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        ids
    }

    /// Successive numbers that are no ids yet.
    fn numbers(&self, count: usize) -> Vec<u64> {
        let run = |first: u64| first..first + count as u64;
        let is_free = |&first: &u64| run(first).all(|id| !self.rows.contains_key(&id));
        run((self.next..).find(is_free).expect("there are free ones")).collect()
    }

    /// Rows under their numbers, or under ids of the caller; from the host or the device.
    fn grow(&mut self, index: &mut Index, count: usize, is_numbered: bool) {
        let ids = match is_numbered {
            true => self.numbers(count),
            false => self.free_ids(count),
        };
        let given = (!is_numbered).then_some(&ids[..]);
        let rows = self.random.integers(ids.len() * DIM, MOST);
        let can_be_there = self.case.1 == ElementKind::F32 && !ids.is_empty();
        let result = if can_be_there && self.random.below(3) == 0 {
            let uploaded = self.device.upload(view(&rows, DIM)).expect("good rows");
            living::add(index, &uploaded, given)
        } else {
            self.add(index, &rows, given)
        };
        result.expect("good rows, and ids that are free");
        self.next = match ids.last() {
            Some(last) if is_numbered => last + 1,
            _ => self.next + ids.len() as u64,
        };
        self.rows.extend(ids.into_iter().zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
    }

    fn update(&mut self, index: &mut Index, ids: &[u64], rows: &[f32]) -> Result<(), Error> {
        match self.case.1 {
            ElementKind::F32 => index.update(ids, view(rows, DIM))?,
            ElementKind::F16 => index.update(ids, view(&rounded(rows).0, DIM))?,
            other => unreachable!("no rows of {other:?}"),
        }
        self.rows.extend(ids.iter().copied().zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
        Ok(())
    }

    /// A refused call leaves the index as it was.
    fn refuse(&mut self, index: &mut Index) {
        let unknown = (1 << 63) - 1;
        let known = self.rows.keys().next().copied();
        let error = index.remove(&[known.unwrap_or(unknown), unknown]).expect_err("unknown");
        assert!(matches!(error, Error::UnknownId { id } if id == unknown), "{error}");
        let mut bad = self.random.integers(90 * DIM, MOST);
        bad[77 * DIM] = f32::NAN;
        let error = self.add(index, &bad, None).expect_err("not finite");
        assert!(matches!(error, Error::NotFinite { row: 77, .. }), "{error}");
        if let Some(id) = known {
            let error = self.update(index, &[id], &bad[77 * DIM..78 * DIM]).expect_err("not finite");
            assert!(matches!(error, Error::NotFinite { row: 0, .. }), "{error}");
        }
    }

    /// One of the operations; says which.
    pub(crate) fn operate(&mut self, index: &mut Index, operation: usize) -> &'static str {
        match operation {
            0..3 => {
                let count = [1, 7, 40, 200][self.random.below(4)];
                self.grow(index, count, true);
                "add"
            }
            3 | 4 => {
                let count = [0, 5, 60, 150][self.random.below(4)];
                self.grow(index, count, false);
                "add with ids"
            }
            5 | 6 => {
                let every = [2, 3, 20][self.random.below(3)];
                let gone = match self.random.below(4) {
                    // The largest ids: at the end, as it may be.
                    0 => self.rows.keys().rev().take(self.random.below(300)).copied().collect(),
                    _ => self.some_ids(every),
                };
                index.remove(&gone).expect("they are there");
                gone.iter().for_each(|id| drop(self.rows.remove(id)));
                "remove"
            }
            7 | 8 => {
                let mut ids: Vec<u64> = self.some_ids(30).into_iter().take(3).collect();
                ids.reverse();
                let rows = self.random.integers(ids.len() * DIM, MOST);
                self.update(index, &ids, &rows).expect("they are there");
                "update"
            }
            9 => {
                index.compact().expect("it is compacted");
                "compact"
            }
            10 => {
                index.save(&self.saved).expect("it is saved");
                *index = Index::load(self.device, &self.saved).expect("it is loaded");
                "save and load"
            }
            11 => {
                self.refuse(index);
                "refuse"
            }
            _ => {
                let queries = 1 + self.random.below(4);
                self.search(index, queries);
                "filter"
            }
        }
    }

    /// Rows in another order than they came, so that their slots have nothing in common.
    fn fill(&self, mut index: Index) -> Index {
        let ids: Vec<u64> = self.rows.keys().rev().copied().collect();
        let rows: Vec<f32> = self.rows.values().rev().flatten().copied().collect();
        self.add(&mut index, &rows, Some(&ids)).expect("good rows");
        index
    }

    /// The index answers as fresh ones: without a filter and with one of any kind, with all probes and with few.
    fn search(&mut self, index: &Index, queries: usize) {
        let (metric, elements, ..) = self.case;
        let exact = self.fill(Kind::Flat.make(self.device, metric, DIM, elements, Screen::None));
        let same = self.fill(Index::load(self.device, &self.empty).expect("it is loaded"));
        let values = self.random.integers(queries * DIM, MOST);
        let queries = view(&values, DIM);
        let share = [0, 1, 5, 30, 100][self.random.below(5)];
        let is_allowed = |id: u64| id % 100 < share;
        // One that no row has, too.
        let ids: Vec<u64> =
            self.rows.keys().copied().filter(|id| is_allowed(*id)).chain([u64::MAX]).collect();
        let mut words = vec![0u64; self.next as usize / 64 + 1];
        for id in ids.iter().filter(|id| **id < self.next) {
            words[*id as usize / 64] |= 1 << (id % 64);
        }
        let filters = [Filter::ids(&ids), Filter::bits(&words), Filter::by(&is_allowed)];
        let number = self.random.below(3);
        for filter in [None, Some(filters[number])] {
            // All of them, where they are not too many for the budget.
            let most = if queries.rows() < 10 { (self.rows.len() + 7).min(800) } else { 50 };
            let k = [1, 9, 30, most][self.random.below(4)];
            let mut options = SearchOptions::new(k);
            if let Some(filter) = filter {
                options = options.filter(filter);
            }
            let is_filtered = filter.is_some();
            let said = format!(
                "{} queries, k {k}; {is_filtered}: filter {number} of {share} in 100",
                queries.rows()
            );
            let few = 1 + self.random.below(LISTS - 1);
            let [all, some] = [LISTS, few].map(|probes| bits(&answer(index, queries, &options, probes)));
            assert_eq!(all, bits(&answer(&exact, queries, &options, LISTS)), "{said}");
            assert_eq!(some, bits(&answer(&same, queries, &options, few)), "{few} probes, {said}");
        }
        let wanted = exact.search_within(queries, 4.0).expect("an answer");
        let found = index.search_within(queries, 4.0).expect("an answer");
        assert_eq!(bits(&found), bits(&wanted), "within a radius");
    }

    /// The rows are there, and are found by candidates and list by list.
    pub(crate) fn check(&mut self, index: &Index) {
        assert!(living::ids(index).iter().eq(self.rows.keys()), "ids");
        for id in self.some_ids(20).into_iter().take(3) {
            assert_eq!(index.get(&[id]).expect("it is there"), self.rows[&id], "row {id}");
        }
        self.search(index, 3);
        self.search(index, 70);
    }
}
