//! A random rotation that costs a few operations per dimension.

use nearfield_testing::Random;

pub(super) const LANES: usize = 16;

/// Rotates a space so that no new axis is near an old one.
///
/// A dense matrix would cost dim^2 products per vector. Instead, every stage pairs the dimensions at random and rotates each
/// pair by a random angle. After 3 log2(dim) stages every old axis is spread over all new ones.
pub(super) struct Rotation {
    turns: Vec<Turn>,
}

/// A turn in the plane of two dimensions.
struct Turn {
    places: [usize; 2],
    cosine: f32,
    sine: f32,
}

impl Rotation {
    pub(super) fn new(dim: usize, random: &mut Random) -> Self {
        let stages = 3 * dim.next_power_of_two().trailing_zeros();
        let mut order: Vec<usize> = (0..dim).collect();
        let mut turns = Vec::with_capacity(stages as usize * (dim / 2));
        for _ in 0..stages {
            for place in (1..dim).rev() {
                order.swap(place, random.below(place + 1));
            }
            // An odd dimension waits for the next stage.
            for &places in order.as_chunks::<2>().0 {
                // From the tangent of half an angle up to 90 degrees, because sines of libraries differ in their last bits.
                let tangent = random.unit();
                let square = tangent * tangent;
                let cosine = (1.0 - square) / (1.0 + square);
                turns.push(Turn { places, cosine, sine: 2.0 * tangent / (1.0 + square) });
            }
        }
        Self { turns }
    }

    /// Turns vectors, `[dim, LANES]`.
    pub(super) fn turn(&self, vectors: &mut [[f32; LANES]]) {
        for &Turn { places, cosine, sine } in &self.turns {
            // The places of a pair differ, and are below dim.
            let Ok([first, second]) = vectors.get_disjoint_mut(places) else { continue };
            for (x, y) in first.iter_mut().zip(second) {
                (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
            }
        }
    }
}
