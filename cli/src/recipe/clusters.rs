//! Plain recipes: noise, noise around centres, whole numbers.

use super::make::{Make, Part, Setting, set_norm, shared};
use super::random::Random;

/// Values uniform in [-1, 1).
pub(super) struct Uniform;

impl Make for Uniform {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        vectors.iter_mut().for_each(|x| *x = random.signed());
    }
}

/// Whole numbers from -3 to 3.
pub(super) struct Integer;

impl Make for Integer {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        vectors.iter_mut().for_each(|x| *x = random.below(7) as f32 - 3.0);
    }
}

/// Clusters, with norms that make metrics differ.
pub(super) struct Clustered {
    dim: usize,
    /// `[256, dim]`.
    centres: Vec<f32>,
}

impl Clustered {
    pub(super) fn new(setting: Setting) -> Self {
        let mut random = shared(setting);
        let dim = setting.dim;
        Self { dim, centres: (0..256 * dim).map(|_| random.normal()).collect() }
    }
}

impl Make for Clustered {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        for vector in vectors.chunks_exact_mut(self.dim) {
            let centre = random.below(256) as usize * self.dim;
            for (x, middle) in vector.iter_mut().zip(&self.centres[centre..centre + self.dim]) {
                *x = middle + random.normal();
            }
            set_norm(vector, 0.5 + 1.5 * f64::from(random.unit()));
        }
    }
}

/// Dimensions before the projection.
const RANK: usize = 32;
/// Centres in them.
const CENTRES: usize = 1000;

/// A mixture of normal distributions in few dimensions, projected into many.
pub(super) struct LowRank {
    dim: usize,
    /// `[CENTRES, RANK]`.
    centres: Vec<f32>,
    /// `[RANK, dim]`.
    projection: Vec<f32>,
}

impl LowRank {
    pub(super) fn new(setting: Setting) -> Self {
        let mut random = shared(setting);
        let centres = (0..CENTRES * RANK).map(|_| 1.5 * random.normal()).collect();
        let scale = 1.0 / (RANK as f32).sqrt();
        let projection = (0..RANK * setting.dim).map(|_| scale * random.normal()).collect();
        Self { dim: setting.dim, centres, projection }
    }
}

impl Make for LowRank {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        let dim = self.dim;
        for vector in vectors.chunks_exact_mut(dim) {
            let centre = random.below(CENTRES as u64) as usize * RANK;
            let mut inner = [0.0; RANK];
            for (z, middle) in inner.iter_mut().zip(&self.centres[centre..centre + RANK]) {
                *z = middle + random.normal();
            }
            vector.iter_mut().for_each(|x| *x = 0.1 * random.normal());
            // Four at a time, to load and store sums less often. The order of additions is the same.
            for (z, rows) in inner.as_chunks::<4>().0.iter().zip(self.projection.chunks_exact(4 * dim)) {
                let (low, high) = rows.split_at(2 * dim);
                let ((a, b), (c, d)) = (low.split_at(dim), high.split_at(dim));
                for ((((x, a), b), c), d) in vector.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *x = *x + z[0] * a + z[1] * b + z[2] * c + z[3] * d;
                }
            }
            set_norm(vector, 1.0);
        }
    }
}
