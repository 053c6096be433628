//! Plain recipes: noise, noise around centres, whole numbers.

use super::make::{Maker, Setting, set_norm, shared};

/// Values uniform in [-1, 1).
pub(super) fn uniform() -> Maker {
    Box::new(|_, _, random, vectors| vectors.iter_mut().for_each(|x| *x = random.unit()))
}

/// Whole numbers from -3 to 3.
pub(super) fn integer() -> Maker {
    Box::new(|_, _, random, vectors| vectors.iter_mut().for_each(|x| *x = random.below(7) as f32 - 3.0))
}

/// Clusters, with norms that make metrics differ.
pub(super) fn clustered(setting: Setting) -> Maker {
    let (dim, mut random) = (setting.dim, shared(setting));
    // [256, dim]
    let centres: Vec<f32> = (0..256 * dim).map(|_| random.normal()).collect();
    Box::new(move |_, _, random, vectors| {
        for vector in vectors.chunks_exact_mut(dim) {
            let centre = random.below(256) * dim;
            for (x, middle) in vector.iter_mut().zip(&centres[centre..centre + dim]) {
                *x = middle + random.normal();
            }
            set_norm(vector, 0.5 + 1.5 * f64::from(random.part()));
        }
    })
}

/// Dimensions before the projection.
const RANK: usize = 32;
const CENTRES: usize = 1000;

/// A mixture of normal distributions in few dimensions, projected into many.
pub(super) fn low_rank(setting: Setting) -> Maker {
    let (dim, mut random) = (setting.dim, shared(setting));
    // [CENTRES, RANK] and [RANK, dim]
    let centres: Vec<f32> = (0..CENTRES * RANK).map(|_| 1.5 * random.normal()).collect();
    let scale = 1.0 / (RANK as f32).sqrt();
    let projection: Vec<f32> = (0..RANK * dim).map(|_| scale * random.normal()).collect();
    Box::new(move |_, _, random, vectors| {
        for vector in vectors.chunks_exact_mut(dim) {
            let centre = random.below(CENTRES) * RANK;
            let mut inner = [0.0; RANK];
            for (z, middle) in inner.iter_mut().zip(&centres[centre..centre + RANK]) {
                *z = middle + random.normal();
            }
            vector.iter_mut().for_each(|x| *x = 0.1 * random.normal());
            // Four at a time, to load and store sums less often. The order of additions is the same.
            for (z, rows) in inner.as_chunks::<4>().0.iter().zip(projection.chunks_exact(4 * dim)) {
                let (low, high) = rows.split_at(2 * dim);
                let ((a, b), (c, d)) = (low.split_at(dim), high.split_at(dim));
                for ((((x, a), b), c), d) in vector.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *x = *x + z[0] * a + z[1] * b + z[2] * c + z[3] * d;
                }
            }
            set_norm(vector, 1.0);
        }
    })
}
