//! Indexes that several of these suites search, and the devices that they share.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nearfield::{AddOptions, Device, Error, Flat, KMeans, MatrixView, Metric, Quantization};

use crate::common::{Engine, options};
use nearfield_testing::Random;

/// An index of rows under their insertion numbers.
pub(crate) fn flat(
    device: &Device,
    metric: Metric,
    rows: MatrixView<'_, f32>,
    quantization: Quantization,
) -> Flat {
    let mut index =
        Flat::builder(device, metric, rows.dim()).quantization(quantization).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

/// An index of rows under these ids.
pub(crate) fn flat_with_ids(
    device: &Device,
    metric: Metric,
    rows: MatrixView<'_, f32>,
    quantization: Quantization,
    ids: &[u64],
) -> Flat {
    let mut index =
        Flat::builder(device, metric, rows.dim()).quantization(quantization).build().expect("an index");
    index.add_with(rows, &AddOptions::new().ids(ids)).expect("good rows");
    index
}

/// Lists that need not be good ones: a software driver takes a tenth of a second for an iteration.
pub(crate) fn few_iterations(means: KMeans) -> KMeans {
    means.iterations(2)
}

/// A GPU that the test may destroy.
pub(crate) fn own_gpu() -> Option<Device> {
    Engine::Adapter.open(options())
}

/// Up to three devices of an engine, each with memory of its own, which all tests share.
pub(crate) fn devices(engine: Engine, count: usize) -> Option<Vec<Device>> {
    static OTHERS: [[OnceLock<Option<Device>>; 2]; 2] = [const { [const { OnceLock::new() }; 2] }; 2];
    let others = OTHERS[engine as usize].iter().map(|other| other.get_or_init(|| engine.open(options())));
    let others = others.map(Option::as_ref);
    std::iter::once_with(|| engine.device()).chain(others).take(count).map(|device| device.cloned()).collect()
}

/// A GPU that one test has alone.
pub(crate) struct Limited(MutexGuard<'static, Option<Device>>);

impl Deref for Limited {
    type Target = Device;

    fn deref(&self) -> &Device {
        self.0.as_ref().expect("it was opened")
    }
}

/// A GPU whose rows may hold this many bytes. Tests with the same limit have it one after another, because what indexes hold counts
/// together.
pub(crate) fn limited(memory_bytes: u64) -> Option<Limited> {
    static DEVICES: Mutex<BTreeMap<u64, &Mutex<Option<Device>>>> = Mutex::new(BTreeMap::new());
    let options = options().memory_bytes(memory_bytes).join_searches(false);
    let open = || &*Box::leak(Box::new(Mutex::new(Engine::Adapter.open(options))));
    let device =
        *DEVICES.lock().unwrap_or_else(PoisonError::into_inner).entry(memory_bytes).or_insert_with(open);
    let device = device.lock().unwrap_or_else(PoisonError::into_inner);
    device.is_some().then_some(Limited(device))
}

/// Runs under a budget, then under the one that its error asks for; the result, and the budget that was enough.
pub(crate) fn run_within<T>(
    mut budget: u64,
    attempts: usize,
    run: impl Fn(u64) -> Result<T, Error>,
) -> (T, u64) {
    for _ in 0..attempts {
        match run(budget) {
            Ok(done) => return (done, budget),
            Err(Error::Budget { needed, budget: told, purpose }) => {
                assert!(needed > told && told == budget, "{purpose}: {needed} of {told}, given {budget}");
                budget = needed;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{budget} bytes were to be enough");
}

/// The ids 0, 1, 2 and so on.
pub(crate) fn numbered(rows: usize) -> Vec<u64> {
    (0..rows as u64).collect()
}

/// Lists from which on a screen stores the scores of a sample of their centroids. No multiple of 128.
pub(crate) const MANY_LISTS: usize = 4100;

/// Sets of 4,200 rows for these lists: names, dims and values, which are whole.
pub(crate) fn rows_of_many_lists() -> [(&'static str, usize, Vec<f32>); 3] {
    let mut random = Random::new(15);
    let mut values = |count: usize, range: usize| -> Vec<f32> {
        (0..count).map(|_| random.below(range) as f32 - range as f32 / 2.0).collect()
    };
    // 256 different rows, so that centroids tie; and many rows the same, which are too many for a list of candidates.
    let (apart, alike) = (values(4200 * 12, 200), values(4200 * 4, 4));
    let mut equal = values(4200 * 8, 40);
    equal[600 * 8..1400 * 8].fill(7.0);
    [("rows apart", 12, apart), ("equal distances", 4, alike), ("equal rows", 8, equal)]
}
