//! The cases of lives, drawn by chance.

use nearfield::{ElementKind, Metric, Screen};

use nearfield_testing::Random;
use nearfield_testing::life::{Case, Values};
use nearfield_testing::living::Kind;

/// Dims of one element, of no whole vectors of four, and of common embeddings.
const DIMS: [usize; 14] = [1, 3, 4, 6, 17, 32, 64, 96, 100, 128, 256, 384, 768, 1025];

/// The case of a life: one of those with little memory, or any.
pub(super) fn draw(random: &mut Random) -> Case {
    let kind = [Kind::Flat, Kind::Ivf][random.below(2)];
    if random.below(4) == 0 {
        return Case::confined(kind)[random.below(4)];
    }
    let elements = [ElementKind::F32, ElementKind::F32, ElementKind::F16][random.below(3)];
    let values = [Values::Whole, Values::Floats, Values::Adversarial][random.below(3)];
    let dim = DIMS[random.below(DIMS.len())];
    let row_bytes = 4 * dim.next_multiple_of(8) as u64;
    Case {
        kind,
        metric: Metric::ALL[random.below(Metric::ALL.len())],
        elements,
        screen: [Screen::Auto, Screen::I8, Screen::None][random.below(3)],
        dim,
        // Adversarial rows have numbers that f16 does not hold.
        values: if elements == ElementKind::F16 && values == Values::Adversarial {
            Values::Floats
        } else {
            values
        },
        rows: [0, 50, 500, 6000][random.below(4)],
        // A segment has at least 128 rows. The 8-bit copy of short vectors takes 32 bytes a row.
        segment_bytes: [128 * row_bytes, 1000 * row_bytes, u64::MAX][random.below(3)],
        budget_bytes: [16 << 20, 64 << 20, 256 << 20][random.below(3)],
    }
}
