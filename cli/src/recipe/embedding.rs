//! Vectors distributed like embeddings of texts.
//!
//! The model was 50,000 embeddings of 384 dimensions, the first 4,000 of which are in `nearfield demo`. The recipe copies
//! the decay of the variance over the principal components, the cosine of random pairs (0.17, give or take 0.1), and the
//! distances of the nearest neighbours (a quarter of the queries have a neighbour above cosine 0.95, 6 in 10 one above 0.8).

use super::make::{Maker, Setting, norm, shared};
use super::random::Random;
use super::rotation::{LANES, Rotation};

/// Variance by place among the principal components, both as parts of the whole, as straight lines between these points.
/// The area is 1: 50 % of it lies left of 0.112, 80 % left of 0.323, 90 % left of 0.466, 95 % left of 0.581.
const SPECTRUM: [(f64, f64); 7] =
    [(0.0, 15.1), (0.026, 3.8), (0.112, 2.1), (0.323, 0.744), (0.466, 0.656), (0.581, 0.218), (1.0, 0.02)];

/// The mean's part of the squared norm, which is the cosine of random pairs.
const COMMON: f64 = 0.174;
/// The centre's part of a vector's variance.
const CENTRE: f64 = 0.5;
const CLUSTERS: usize = 2048;
/// About the most values of all centres: 16 MiB, which a processor's cache may hold.
const CENTRE_NUMBERS: usize = 1 << 22;
/// The part of the vectors that belong to families.
const IN_FAMILY: f32 = 0.75;
/// Rows of a family on average.
const FAMILY: f64 = 5.0;
/// The members' own part of the variance in the widest family. Most families are far narrower.
const WIDEST: f32 = 0.5;

/// Clusters in a space with a spectrum, rotated at random, shifted, and scaled to norm 1.
struct Embedding {
    setting: Setting,
    /// `[clusters, dim]`.
    centres: Vec<f32>,
    clusters: u64,
    families: u64,
    /// `[dim]`: the standard deviation along each principal axis.
    spread: Vec<f32>,
    rotation: Rotation,
    /// `[dim]`, added to every vector.
    mean: Vec<f32>,
}

impl Embedding {
    fn new(setting: Setting) -> Self {
        let dim = setting.dim;
        let mut random = shared(setting);
        let variances: Vec<f64> = (0..dim).map(|place| density((place as f64 + 0.5) / dim as f64)).collect();
        let whole: f64 = variances.iter().sum();
        let spread = variances.iter().map(|one| ((1.0 - COMMON) * one / whole).sqrt() as f32).collect();
        let rotation = Rotation::new(dim, &mut random);
        let mut mean: Vec<f32> = (0..dim).map(|_| random.normal()).collect();
        let length = norm(&mean);
        mean.iter_mut().for_each(|x| *x = (f64::from(*x) * COMMON.sqrt() / length) as f32);
        let clusters = (CENTRE_NUMBERS / dim).clamp(16, CLUSTERS);
        let scale = CENTRE.sqrt() as f32;
        let centres = (0..clusters * dim).map(|_| scale * random.normal()).collect();
        let families = ((setting.rows as f64 * f64::from(IN_FAMILY) / FAMILY) as u64).max(1);
        Self { setting, centres, clusters: clusters as u64, families, spread, rotation, mean }
    }

    /// Draws a vector along the principal axes, with variance 1 in each, into one lane.
    fn draw(&self, random: &mut Random, lane: usize, vectors: &mut [[f32; LANES]]) {
        let own = (1.0 - CENTRE).sqrt() as f32;
        if random.unit() >= IN_FAMILY {
            let centre = self.centre(random);
            for (x, middle) in vectors.iter_mut().zip(centre) {
                x[lane] = middle + own * random.normal();
            }
            return;
        }
        // The number of a family gives its founder again.
        let mut founder = Random::of(self.setting.seed, 4, random.below(self.families));
        let centre = self.centre(&mut founder);
        let width = founder.unit();
        let apart = WIDEST * width * width;
        let (kept, added) = ((1.0 - apart).sqrt(), apart.sqrt());
        for (x, middle) in vectors.iter_mut().zip(centre) {
            x[lane] = kept * (middle + own * founder.normal()) + added * random.normal();
        }
    }

    fn centre(&self, random: &mut Random) -> &[f32] {
        let dim = self.setting.dim;
        &self.centres[random.below(self.clusters) as usize * dim..][..dim]
    }
}

pub(super) fn maker(setting: Setting) -> Maker {
    let embedding = Embedding::new(setting);
    Box::new(move |_, _, random, vectors| embedding.make(random, vectors))
}

impl Embedding {
    fn make(&self, random: &mut Random, vectors: &mut [f32]) {
        let dim = self.setting.dim;
        let mut lanes = vec![[0.0; LANES]; dim];
        for some in vectors.chunks_mut(LANES * dim) {
            // Unused lanes keep old vectors, which nobody reads.
            for lane in 0..some.len() / dim {
                self.draw(random, lane, &mut lanes);
            }
            for (x, spread) in lanes.iter_mut().zip(&self.spread) {
                x.iter_mut().for_each(|x| *x *= spread);
            }
            self.rotation.turn(&mut lanes);
            let mut squares = [0.0; LANES];
            for (x, mean) in lanes.iter_mut().zip(&self.mean) {
                for (x, square) in x.iter_mut().zip(&mut squares) {
                    *x += mean;
                    *square += *x * *x;
                }
            }
            for (lane, vector) in some.chunks_exact_mut(dim).enumerate() {
                let scale = if squares[lane] > 0.0 { 1.0 / squares[lane].sqrt() } else { 0.0 };
                for (x, from) in vector.iter_mut().zip(&lanes) {
                    *x = from[lane] * scale;
                }
            }
        }
    }
}

/// The spectrum at a place from 0 to 1.
fn density(place: f64) -> f64 {
    let lines = SPECTRUM.iter().zip(&SPECTRUM[1..]);
    lines
        .into_iter()
        .find(|(_, end)| place <= end.0)
        .map_or(0.0, |(start, end)| start.1 + (end.1 - start.1) * (place - start.0) / (end.0 - start.0))
}
