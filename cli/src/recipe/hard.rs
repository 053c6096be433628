//! Recipes that strain a search: its thresholds, its lists, its precision.

use super::embedding::Embedding;
use super::make::{Make, PIECE, Part, Setting, norm, set_norm, shared};
use super::random::Random;

/// The number of vectors that are copied.
const ORIGINALS: u64 = 8;
/// The offset in the outlier's dimension, for vectors of norm 1.
const OFFSET: f32 = 16.0;
/// The largest exponent of a norm: one less than an index accepts, because norms are rounded.
const EXPONENT: u64 = 49;
/// Rows per stretch of the mix.
const STRETCH: usize = 2 * PIECE;

/// Many rows at one distance: lists overflow, and ids decide.
pub(super) struct Duplicates {
    dim: usize,
    /// `[ORIGINALS, dim]`.
    originals: Vec<f32>,
}

impl Duplicates {
    pub(super) fn new(setting: Setting) -> Self {
        let mut random = shared(setting);
        let dim = setting.dim;
        Self { dim, originals: (0..ORIGINALS as usize * dim).map(|_| random.signed()).collect() }
    }
}

impl Make for Duplicates {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        for vector in vectors.chunks_exact_mut(self.dim) {
            if random.below(100) > 0 {
                let original = random.below(ORIGINALS) as usize * self.dim;
                vector.copy_from_slice(&self.originals[original..original + self.dim]);
            } else {
                vector.iter_mut().for_each(|x| *x = random.signed());
            }
        }
    }
}

/// One vector for all rows: every row has the same distance, so ids alone decide.
pub(super) struct Equal {
    row: Vec<f32>,
}

impl Equal {
    pub(super) fn new(setting: Setting) -> Self {
        let mut random = shared(setting);
        Self { row: (0..setting.dim).map(|_| random.signed()).collect() }
    }
}

impl Make for Equal {
    fn make(&self, part: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        match part {
            Part::Rows => {
                for vector in vectors.chunks_exact_mut(self.row.len()) {
                    vector.copy_from_slice(&self.row);
                }
            }
            Part::Queries => vectors.iter_mut().for_each(|x| *x = random.signed()),
        }
    }
}

/// Rows from far to near: a threshold from the first rows excludes none of the others.
///
/// Queries lie around a vector of norm 1. Row i is that vector, shortened by r / 2 and moved by r at a right angle. As r
/// falls from 1 to 0, the squared distance, the cosine distance and the negated inner product all fall.
pub(super) struct Sorted {
    rows: usize,
    middle: Vec<f32>,
}

impl Sorted {
    pub(super) fn new(setting: Setting) -> Self {
        let mut random = shared(setting);
        let mut middle: Vec<f32> = (0..setting.dim).map(|_| random.normal()).collect();
        set_norm(&mut middle, 1.0);
        Self { rows: setting.rows, middle }
    }
}

impl Make for Sorted {
    fn make(&self, part: Part, first: usize, random: &mut Random, vectors: &mut [f32]) {
        for (number, vector) in vectors.chunks_exact_mut(self.middle.len()).enumerate() {
            vector.iter_mut().for_each(|x| *x = random.normal());
            let (along, aside) = match part {
                Part::Queries => (1.0, 1.0 / 1024.0),
                Part::Rows => {
                    let left = 1.0 - (first + number) as f64 / self.rows as f64;
                    (1.0 - left / 2.0, left)
                }
            };
            let dot: f64 = vector.iter().zip(&self.middle).map(|(&x, &m)| f64::from(x) * f64::from(m)).sum();
            for (x, m) in vector.iter_mut().zip(&self.middle) {
                *x = (f64::from(*x) - dot * f64::from(*m)) as f32;
            }
            // In one dimension only a rounding error is at a right angle.
            let length = norm(vector);
            let scale = if length > 1e-3 { aside / length } else { 0.0 };
            for (x, m) in vector.iter_mut().zip(&self.middle) {
                *x = (along * f64::from(*m) + scale * f64::from(*x)) as f32;
            }
        }
    }
}

/// One dimension that outweighs all others: differences are small beside the sums of products, and one scale for a whole
/// row serves only that dimension.
pub(super) struct Outlier {
    dim: usize,
    rest: Embedding,
}

impl Outlier {
    pub(super) fn new(setting: Setting) -> Self {
        Self { dim: setting.dim, rest: Embedding::new(setting) }
    }
}

impl Make for Outlier {
    fn make(&self, part: Part, first: usize, random: &mut Random, vectors: &mut [f32]) {
        self.rest.make(part, first, random, vectors);
        for vector in vectors.chunks_exact_mut(self.dim) {
            vector[self.dim / 3] += OFFSET;
        }
    }
}

/// Norms over the range that an index accepts.
pub(super) struct Norms {
    pub(super) dim: usize,
}

impl Make for Norms {
    fn make(&self, _: Part, _: usize, random: &mut Random, vectors: &mut [f32]) {
        for vector in vectors.chunks_exact_mut(self.dim) {
            let exponent = random.below(2 * EXPONENT + 1);
            vector.iter_mut().for_each(|x| *x = random.normal());
            // Powers of two without `powi`, whose rounding may differ.
            let (up, down) = (exponent.saturating_sub(EXPONENT), EXPONENT.saturating_sub(exponent));
            let power = (1u64 << up) as f64 / (1u64 << down) as f64;
            set_norm(vector, power);
        }
    }
}

/// The other recipes in turn, by stretch of rows and by query.
pub(super) struct Mix {
    dim: usize,
    parts: [Box<dyn Make>; 5],
}

impl Mix {
    pub(super) fn new(setting: Setting) -> Self {
        let dim = setting.dim;
        let parts: [Box<dyn Make>; 5] = [
            Box::new(Sorted::new(setting)),
            Box::new(Duplicates::new(setting)),
            Box::new(Outlier::new(setting)),
            Box::new(Norms { dim }),
            Box::new(Equal::new(setting)),
        ];
        Self { dim, parts }
    }
}

impl Make for Mix {
    fn make(&self, part: Part, first: usize, random: &mut Random, vectors: &mut [f32]) {
        // A stretch is two pieces.
        if part == Part::Rows {
            return self.parts[first / STRETCH % self.parts.len()].make(part, first, random, vectors);
        }
        for (number, vector) in vectors.chunks_exact_mut(self.dim).enumerate() {
            let number = first + number;
            self.parts[number % self.parts.len()].make(part, number, random, vector);
        }
    }
}
