//! The function that a recipe is, and helpers that recipes share.

use nearfield_testing::Random;

/// Vectors per piece.
pub(crate) const PIECE: usize = 256;

/// Half of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Rows,
    Queries,
}

/// The sizes and the seed of a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) dim: usize,
    /// All rows, also when queries are made.
    pub(super) rows: usize,
    pub(super) seed: u64,
}

/// Makes the vectors of one recipe: fills `[n, dim]`, starting at the given number. Nothing else uses the random numbers.
pub(super) type Maker = Box<dyn Fn(Part, usize, &mut Random, &mut [f32]) + Sync>;

/// Random numbers for what all vectors of a set share: centres, projections.
pub(super) fn shared(setting: Setting) -> Random {
    Random::of(setting.seed, 3, 0)
}

/// The norm, summed in f64 from first to last.
pub(super) fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// Scales a vector to this norm. A zero vector stays.
pub(super) fn set_norm(vector: &mut [f32], wanted: f64) {
    let norm = norm(vector);
    if norm > 0.0 {
        let scale = (wanted / norm) as f32;
        vector.iter_mut().for_each(|x| *x *= scale);
    }
}
