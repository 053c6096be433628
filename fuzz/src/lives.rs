//! Lives of an index beside a model: the operations that `nearfield-bench soak` draws by chance are the bytes of the input here.

use nearfield::{Device, DeviceOptions, Distribution, Index, MultiVector};

use nearfield_testing::life::{Case, Life, Living};
use nearfield_testing::living::Kind;

/// Operations of a life at most: each check builds the index anew.
const LONGEST: usize = 40;

/// Bytes before the operations: the case and the kind, and the seed of the values.
const HEAD: usize = 9;

/// The bits of the first byte that choose a kind: a `Flat`, an `Ivf`, and documents for the rest.
const KINDS: u8 = 0xc0;

/// A life: its case, its seed, and an operation for each further byte.
pub(crate) fn life(data: &[u8]) {
    let Some((&[choice, ref seed @ ..], operations)) = data.split_first_chunk::<HEAD>() else { return };
    let seed = seed.iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
    let cases = match choice & KINDS {
        0 => Case::confined(Kind::Flat),
        0x80 => Case::confined(Kind::Ivf),
        _ => Case::of_documents(),
    };
    let case = cases[usize::from(choice) % cases.len()];
    match choice & KINDS {
        0 | 0x80 => live::<Index>(case, seed, operations),
        _ => live::<MultiVector>(case, seed, operations),
    }
}

fn live<L: Living>(case: Case, seed: u64, operations: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    // Two devices in the place of one, for half of the inputs.
    let devices: Vec<Device> = (0..1 + seed % 2)
        .map(|_| Device::open(Some("host"), case.confine(DeviceOptions::new())).expect("the host engine"))
        .collect();
    let distribution = if seed & 2 == 0 { Distribution::Sharded } else { Distribution::Replicated };
    let roomy = Device::host();
    let (mut life, mut index): (_, L) =
        Life::start(&devices, distribution, &roomy, case, folder.path(), seed);
    for &operation in operations.iter().take(LONGEST) {
        life.operate(&mut index, usize::from(operation) % L::OPERATIONS.len());
    }
    life.check(&index);
}

/// A life of each case and kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let cases = Case::confined(Kind::Flat).len() as u8;
    let choices = (0..cases).flat_map(|case| [case, case | 0x80, case | 0x40]);
    choices
        .map(|choice| [choice; HEAD].into_iter().chain((0..30).map(|step| step * 5 + choice % 8)).collect())
        .collect()
}
