//! The life of an index beside a model of it: random changes, filtered searches, saves and loads. Its answers are those of f64, and bit
//! for bit those of a fresh index of the remaining rows.

mod allowed;
mod documents;
mod rows;
mod searches;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nearfield::{
    Device, DeviceOptions, Devices, Distribution, ElementKind, Error, Index, Matrix, Metric, Quantization,
};

use super::living::{self, Kind, MOST};
use super::{Random, view};

/// The most elements that a life holds.
const MOST_ELEMENTS: usize = 300_000;

/// The numbers of vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// Whole, from `-MOST` to `MOST`: distances are exact, and many are equal.
    Whole,
    /// Nearly normally distributed.
    Floats,
    /// Rows at which a screen may go wrong, in f32.
    Adversarial,
}

/// An index, and the device that it lives on.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub kind: Kind,
    pub metric: Metric,
    pub elements: ElementKind,
    pub quantization: Quantization,
    pub dim: usize,
    pub values: Values,
    /// Rows that it starts with: it compacts itself only with more than 4,096 slots.
    pub rows: usize,
    pub segment_bytes: u64,
    pub budget_bytes: u64,
}

impl Case {
    /// Cases with little memory.
    pub fn confined(kind: Kind) -> Vec<Self> {
        // Rows of all element types take no more than 32 bytes each.
        let mut cases = vec![
            (Metric::L2, ElementKind::F32, Quantization::Int8, 128 * 32, 128, 0),
            (Metric::InnerProduct, ElementKind::I8, Quantization::None, 128 * 32, 128, 0),
            (Metric::Cosine, ElementKind::F16, Quantization::Int8, 128 * 32, 128, 300),
            (Metric::L2Squared, ElementKind::F32, Quantization::None, 4096 * 32, 512, 6000),
            (Metric::L2Squared, ElementKind::U8, Quantization::Int8, 128 * 32, 128, 0),
        ];
        if matches!(kind, Kind::Flat) {
            cases.push((Metric::Jaccard, ElementKind::Bits, Quantization::Auto, 128 * 32, 128, 300));
        }
        let of =
            |(metric, elements, quantization, segment_bytes, kib, rows): (_, _, _, u64, u64, usize)| Self {
                kind,
                metric,
                elements,
                quantization,
                dim: 6,
                values: Values::Whole,
                rows,
                segment_bytes,
                budget_bytes: match kind {
                    Kind::Flat => kib << 10,
                    Kind::Ivf => 4 << 20,
                },
            };
        cases.into_iter().map(of).collect()
    }

    /// Cases of a `MultiVector`, which has no bits.
    pub fn of_documents() -> Vec<Self> {
        Self::confined(Kind::Ivf)
    }

    /// Options of the device. An `Ivf` always searches its lists: those of lives are so short that it seldom would.
    pub fn confine(&self, options: DeviceOptions) -> DeviceOptions {
        let options = options.exact_if_faster(false).budget_bytes(self.budget_bytes);
        options.max_segment_bytes(self.segment_bytes)
    }
}

/// What lives: an [`Index`] of rows, or a [`MultiVector`](nearfield::MultiVector) of documents.
pub trait Living: Sized {
    /// The operations of [`Life::operate`].
    const OPERATIONS: &'static [&'static str];

    /// An index with its first rows.
    fn start(life: &mut Life<'_>, roomy: &Device) -> Self;

    /// One of the operations.
    fn operate(&mut self, life: &mut Life<'_>, operation: &str);

    /// All rows are there, and are found in every way.
    fn check(&self, life: &mut Life<'_>);
}

/// The rows, or documents, that an index should hold.
pub struct Life<'d> {
    /// The first of the index's devices, which the indexes that it is compared with live on.
    device: &'d Device,
    devices: Devices,
    distribution: Distribution,
    case: Case,
    /// An index without rows: every `Ivf` that is loaded of it has the same centroids.
    empty: PathBuf,
    saved: PathBuf,
    /// The elements of each row, or of the tokens of each document.
    rows: BTreeMap<u64, Vec<f32>>,
    /// The number that the next row has, unless another row has it as its id.
    next: u64,
    pub random: Random,
    /// Queries whose answers were compared.
    pub compared: u64,
}

impl<'d> Life<'d> {
    /// An index with its first rows, in a folder for its files. `roomy` trains it.
    pub fn start<L: Living>(
        devices: &'d [Device],
        distribution: Distribution,
        roomy: &Device,
        case: Case,
        folder: &Path,
        seed: u64,
    ) -> (Self, L) {
        let [empty, saved] = ["empty.nf", "saved.nf"].map(|name| folder.join(name));
        let device = devices.first().expect("a device");
        let devices = Devices::from(devices);
        let (rows, random) = (BTreeMap::new(), Random::new(seed));
        let mut life =
            Self { device, devices, distribution, case, empty, saved, rows, next: 0, random, compared: 0 };
        let index = L::start(&mut life, roomy);
        (life, index)
    }

    /// Does one of [`Living::OPERATIONS`], by its place.
    pub fn operate<L: Living>(&mut self, index: &mut L, operation: usize) {
        index.operate(self, L::OPERATIONS[operation]);
    }

    /// Compares all rows, and searches.
    pub fn check<L: Living>(&mut self, index: &L) {
        index.check(self);
    }

    /// Values of vectors.
    fn values(&mut self, count: usize) -> Vec<f32> {
        let dim = self.case.dim;
        if self.case.elements == ElementKind::Bits {
            return (0..count * dim)
                .map(|_| (self.random.next() & self.random.next()) as u8 as f32)
                .collect();
        }
        let values = match self.case.values {
            Values::Whole => self.random.integers(count * dim, MOST),
            Values::Floats => self.random.floats(count * dim),
            Values::Adversarial => self.random.adversarial(count, dim),
        };
        // Integers take more than one of a range that is 1 wide, and u8 no negative ones.
        let (scale, least) = match (self.case.elements, self.case.values) {
            (ElementKind::I8 | ElementKind::U8, Values::Floats) => (30.0, 0.0),
            (ElementKind::U8, Values::Whole) => (1.0, MOST as f32),
            _ => (1.0, 0.0),
        };
        self.stored(&values.iter().map(|value| value * scale + least).collect::<Vec<f32>>()).into_f32()
    }

    /// Vectors as the index stores them.
    fn stored(&self, values: &[f32]) -> Matrix {
        Matrix::F32(values.to_vec(), self.case.dim).to_kind(self.case.elements)
    }

    fn add(&self, index: &mut Index, rows: &[f32], ids: Option<&[u64]>) -> Result<(), Error> {
        living::add(index, &self.stored(rows), ids)
    }

    /// An index of the same lists without rows.
    fn fresh(&self) -> Index {
        Index::load(self.device, &self.empty).expect("it is loaded")
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
        self.random.shuffle(&mut ids);
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
        let room = (MOST_ELEMENTS / self.case.dim).saturating_sub(self.rows.len());
        let count = count.min(room);
        let ids = match is_numbered {
            true => self.numbers(count),
            false => self.free_ids(count),
        };
        let given = (!is_numbered).then_some(&ids[..]);
        let rows = self.values(ids.len());
        let can_be_there = self.case.elements == ElementKind::F32 && !ids.is_empty();
        let result = if can_be_there && self.random.below(3) == 0 {
            let uploaded = self.device.upload(view(&rows, self.case.dim)).expect("good rows");
            living::add(index, &uploaded, given)
        } else {
            self.add(index, &rows, given)
        };
        result.expect("good rows, and ids that are free");
        self.pass(&ids, is_numbered);
        self.hold(&ids, &rows);
    }

    /// Notes that rows with these ids were added.
    fn pass(&mut self, ids: &[u64], is_numbered: bool) {
        self.next = match ids.last() {
            Some(last) if is_numbered => last + 1,
            _ => self.next + ids.len() as u64,
        };
    }

    /// Notes the rows of these ids.
    fn hold(&mut self, ids: &[u64], rows: &[f32]) {
        self.rows.extend(ids.iter().copied().zip(rows.chunks(self.case.dim).map(<[f32]>::to_vec)));
    }

    fn drop_rows(&mut self, ids: &[u64]) {
        ids.iter().for_each(|id| drop(self.rows.remove(id)));
    }

    fn update(&mut self, index: &mut Index, ids: &[u64], rows: &[f32]) -> Result<(), Error> {
        index.update(ids, &self.stored(rows))?;
        self.hold(ids, rows);
        Ok(())
    }

    /// A refused call leaves the index as it was, whichever segment, piece or device the bad row falls into.
    fn refuse(&mut self, index: &mut Index) {
        let unknown = (1 << 63) - 1;
        let known = self.rows.keys().next().copied();
        let error = index.remove(&[known.unwrap_or(unknown), unknown]).expect_err("unknown");
        assert!(matches!(error, Error::UnknownId { id } if id == unknown), "{error}");
        let (dim, count) =
            (self.case.dim, [90, 900][self.random.below(2)].min(MOST_ELEMENTS / self.case.dim));
        let first = self.random.below(count);
        let mut bad = self.values(count);
        bad[first * dim] = f32::NAN;
        bad[count * dim - 1] = f32::INFINITY;
        let ids = self.free_ids(count);
        // No integer is infinite.
        let is_of_bits = self.case.elements == ElementKind::Bits;
        let can_be_bad = !self.case.elements.is_integer() && !is_of_bits;
        for ids in [None, Some(&ids[..]).filter(|ids| ids.len() == count)].into_iter().filter(|_| can_be_bad)
        {
            let error = self.add(index, &bad, ids).expect_err("not finite");
            assert!(matches!(error, Error::NotFinite { row, .. } if row == first as u64), "{error}");
        }
        if let (Some(id), true) = (known, can_be_bad) {
            let error = self.update(index, &[id], &bad[first * dim..][..dim]).expect_err("not finite");
            assert!(matches!(error, Error::NotFinite { row: 0, .. }), "{error}");
        }
        let error = index.search(view(&bad[first * dim..], dim), 1).expect_err("not finite");
        let is_told = match &error {
            Error::NotFinite { argument: "queries", row: 0 } => !is_of_bits,
            // Numbers are no bits.
            Error::Argument { argument: "queries", .. } => is_of_bits,
            _ => false,
        };
        assert!(is_told, "{error}");
    }

    /// Rows of an index of its own come in.
    fn merge(&mut self, index: &mut Index) {
        let mut other = self.fresh();
        let count = [0, 3, 80][self.random.below(3)];
        let ids = self.free_ids(count);
        let rows = self.values(ids.len());
        self.add(&mut other, &rows, Some(&ids)).expect("good rows");
        index.merge(&other).expect("ids that are free");
        self.next += ids.len() as u64;
        self.hold(&ids, &rows);
        if let Some(&id) = ids.iter().min() {
            let error = index.merge(&other).expect_err("both have the ids");
            assert!(matches!(error, Error::DuplicateId { id: told } if told == id), "{error}");
        }
    }

    /// A copy stays as it is when the index changes.
    fn copy(&mut self, index: &mut Index) {
        let [copy, on_host] =
            [self.device, &Device::host()].map(|device| index.clone_to(device).expect("a copy"));
        let gone = self.some_ids(3);
        index.remove(&gone).expect("they are there");
        for copy in [&copy, &on_host] {
            let ids = living::ids(copy);
            assert!(ids.iter().eq(self.rows.keys()), "ids of the copy");
            assert!(
                copy.get(&ids).expect("rows").iter().eq(self.rows.values().flatten()),
                "rows of the copy"
            );
        }
        if self.random.below(2) == 0 {
            *index = copy;
        } else {
            self.drop_rows(&gone);
        }
    }
}
