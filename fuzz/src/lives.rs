//! Lives of an index beside a model: the operations that `nearfield-bench soak` draws by chance are the bytes of the input here.

use nearfield::{Device, DeviceOptions, Distribution};

use nearfield_testing::life::{Case, Life, OPERATIONS};
use nearfield_testing::living::Kind;

/// Operations of a life at most: each check builds the index anew.
const LONGEST: usize = 40;

/// Bytes before the operations: the case and the kind, and the seed of the values.
const HEAD: usize = 9;

/// A life: its case, its seed, and an operation for each further byte.
pub(crate) fn life(data: &[u8]) {
    let Some((&[choice, ref seed @ ..], operations)) = data.split_first_chunk::<HEAD>() else { return };
    let seed = seed.iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
    let kind = if choice & 0x80 == 0 { Kind::Flat } else { Kind::Ivf };
    let cases = Case::confined(kind);
    let case = cases[usize::from(choice) % cases.len()];
    let folder = tempfile::tempdir().expect("a folder");
    // Two devices in the place of one, for half of the inputs.
    let devices: Vec<Device> = (0..1 + seed % 2)
        .map(|_| Device::open(Some("host"), case.confine(DeviceOptions::new())).expect("the host engine"))
        .collect();
    let distribution = if seed & 2 == 0 { Distribution::Sharded } else { Distribution::Replicated };
    let roomy = Device::host();
    let (mut life, mut index) = Life::start(&devices, distribution, &roomy, case, folder.path(), seed);
    for &operation in operations.iter().take(LONGEST) {
        life.operate(&mut index, usize::from(operation) % OPERATIONS.len());
    }
    life.check(&index);
}

/// A life of each case and kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let cases = Case::confined(Kind::Flat).len() as u8;
    let choices = (0..cases).flat_map(|case| [case, case | 0x80]);
    choices
        .map(|choice| [choice; HEAD].into_iter().chain((0..30).map(|step| step * 5 + choice % 8)).collect())
        .collect()
}
