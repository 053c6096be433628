//! Recipes that strain a search: its thresholds, its lists, its precision.

use super::embedding;
use super::make::{Maker, PIECE, Part, Setting, norm, set_norm, shared};

/// The number of vectors that are copied.
const ORIGINALS: usize = 8;
/// The offset in the outlier's dimension, for vectors of norm 1.
const OFFSET: f32 = 16.0;
/// The largest exponent of a norm: one less than an index accepts, because norms are rounded.
const EXPONENT: usize = 49;
/// Rows per stretch of the mix.
const STRETCH: usize = 2 * PIECE;

/// Many rows at one distance: lists overflow, and ids decide.
pub(super) fn duplicates(setting: Setting) -> Maker {
    let (dim, mut random) = (setting.dim, shared(setting));
    // [ORIGINALS, dim]
    let originals: Vec<f32> = (0..ORIGINALS * dim).map(|_| random.unit()).collect();
    Box::new(move |_, _, random, vectors| {
        for vector in vectors.chunks_exact_mut(dim) {
            if random.below(100) > 0 {
                let original = random.below(ORIGINALS) * dim;
                vector.copy_from_slice(&originals[original..original + dim]);
            } else {
                vector.iter_mut().for_each(|x| *x = random.unit());
            }
        }
    })
}

/// One vector for all rows: every row has the same distance, so ids alone decide.
pub(super) fn equal(setting: Setting) -> Maker {
    let mut random = shared(setting);
    let row: Vec<f32> = (0..setting.dim).map(|_| random.unit()).collect();
    Box::new(move |part, _, random, vectors| match part {
        Part::Rows => vectors.chunks_exact_mut(row.len()).for_each(|vector| vector.copy_from_slice(&row)),
        Part::Queries => vectors.iter_mut().for_each(|x| *x = random.unit()),
    })
}

/// Rows from far to near: a threshold from the first rows excludes none of the others.
///
/// Queries lie around a vector of norm 1. Row i is that vector, shortened by r / 2 and moved by r at a right angle. As r
/// falls from 1 to 0, the squared distance, the cosine distance and the negated inner product all fall.
pub(super) fn sorted(setting: Setting) -> Maker {
    let mut random = shared(setting);
    let mut middle: Vec<f32> = (0..setting.dim).map(|_| random.normal()).collect();
    set_norm(&mut middle, 1.0);
    Box::new(move |part, first, random, vectors| {
        for (number, vector) in vectors.chunks_exact_mut(middle.len()).enumerate() {
            vector.iter_mut().for_each(|x| *x = random.normal());
            let (along, aside) = match part {
                Part::Queries => (1.0, 1.0 / 1024.0),
                Part::Rows => {
                    let left = 1.0 - (first + number) as f64 / setting.rows as f64;
                    (1.0 - left / 2.0, left)
                }
            };
            let dot: f64 = vector.iter().zip(&middle).map(|(&x, &m)| f64::from(x) * f64::from(m)).sum();
            for (x, m) in vector.iter_mut().zip(&middle) {
                *x = (f64::from(*x) - dot * f64::from(*m)) as f32;
            }
            // In one dimension only a rounding error is at a right angle.
            let length = norm(vector);
            let scale = if length > 1e-3 { aside / length } else { 0.0 };
            for (x, m) in vector.iter_mut().zip(&middle) {
                *x = (along * f64::from(*m) + scale * f64::from(*x)) as f32;
            }
        }
    })
}

/// One dimension that outweighs all others: differences are small beside the sums of products, and one scale for a whole
/// row serves only that dimension.
pub(super) fn outlier(setting: Setting) -> Maker {
    let rest = embedding::maker(setting);
    Box::new(move |part, first, random, vectors| {
        rest(part, first, random, vectors);
        for vector in vectors.chunks_exact_mut(setting.dim) {
            vector[setting.dim / 3] += OFFSET;
        }
    })
}

/// Norms over the range that an index accepts.
pub(super) fn norms(setting: Setting) -> Maker {
    Box::new(move |_, _, random, vectors| {
        for vector in vectors.chunks_exact_mut(setting.dim) {
            let exponent = random.below(2 * EXPONENT + 1);
            vector.iter_mut().for_each(|x| *x = random.normal());
            // Powers of two without `powi`, whose rounding may differ.
            let (up, down) = (exponent.saturating_sub(EXPONENT), EXPONENT.saturating_sub(exponent));
            let power = (1u64 << up) as f64 / (1u64 << down) as f64;
            set_norm(vector, power);
        }
    })
}

/// The other recipes in turn, by stretch of rows and by query.
pub(super) fn mix(setting: Setting) -> Maker {
    let parts = [sorted, duplicates, outlier, norms, equal].map(|recipe| recipe(setting));
    Box::new(move |part, first, random, vectors| {
        if part == Part::Rows {
            return parts[first / STRETCH % parts.len()](part, first, random, vectors);
        }
        for (number, vector) in (first..).zip(vectors.chunks_exact_mut(setting.dim)) {
            parts[number % parts.len()](part, number, random, vector);
        }
    })
}
