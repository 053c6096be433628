//! Vectors distributed like embeddings of texts.
//!
//! The model was 50,000 embeddings of 384 dimensions, the first 4,000 of which are in `nearfield demo`. The recipe copies
//! the decay of the variance over the principal components, the cosine of random pairs (0.17, give or take 0.1), the
//! distances of the nearest neighbours (a quarter of the queries have a neighbour above cosine 0.95, 6 in 10 one above 0.8),
//! and how hard the set is for lists: its recall over probes.
//!
//! Vectors hang from a tree, each from a node at some depth: topics, topics within them, and so on. More rows make a deeper
//! tree, so that a large set is no easier than a small one.

use super::make::{Maker, Setting, norm, shared};
use super::rotation::{LANES, Rotation};
use nearfield_testing::Random;

/// Variance by place among the principal components, both as parts of the whole, as straight lines between these points. The
/// tree concentrates it further: 50 % lies left of 0.112, 80 % left of 0.315, 90 % left of 0.46, 95 % left of 0.57.
const SPECTRUM: [(f64, f64); 7] =
    [(0.0, 11.0), (0.026, 3.4), (0.112, 2.1), (0.323, 0.8), (0.466, 0.68), (0.581, 0.218), (1.0, 0.02)];

/// The mean's part of the squared norm, which is the cosine of random pairs.
const COMMON: f64 = 0.174;
/// Nodes of the first level, and how many times more each next level has.
const FIRST: u64 = 16;
const BRANCHES: u64 = 8;
/// Rows of a node of the last level, at least.
const LEAST_ROWS: u64 = 15;
/// The part of the variance around a node of the first level, and the part of that around one of the next: n nodes leave
/// n^(-2 / 22), as on a surface of 22 dimensions.
const FIRST_REST: f64 = 0.777;
const REST: f64 = 0.828;
/// How often a vector that could hang from a level hangs from a higher one.
const HIGHER: f32 = 0.58;
/// The most values of a level that is held: 16 MiB, which a processor's cache may hold. Others are drawn again.
const HELD_NUMBERS: u64 = 1 << 22;
/// The part of the vectors that belong to families.
const IN_FAMILY: f32 = 0.75;
/// Rows of a family on average.
const FAMILY: f64 = 5.0;
/// The members' own part of the variance in the widest family. Most families are far narrower.
const WIDEST: f32 = 0.5;

/// Nodes at one depth of the tree.
struct Level {
    nodes: u64,
    /// The standard deviation of a node around its parent, and of a vector around its node.
    own: f32,
    rest: f32,
    /// `[nodes, dim]`: all nodes, with their parents. Empty where there are too many.
    held: Vec<f32>,
}

/// A tree in a space with a spectrum, rotated at random, shifted, and scaled to norm 1.
struct Embedding {
    setting: Setting,
    levels: Vec<Level>,
    families: usize,
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
        let families = ((setting.rows as f64 * f64::from(IN_FAMILY) / FAMILY) as usize).max(1);
        let mut this = Self { setting, levels: vec![], families, spread, rotation, mean };
        let (mut nodes, mut before, mut after) = (FIRST, 1.0, FIRST_REST);
        while nodes * LEAST_ROWS < setting.rows as u64 {
            let [own, rest] = [before - after, after].map(|variance: f64| variance.sqrt() as f32);
            this.levels.push(Level { nodes, own, rest, held: vec![] });
            if nodes * dim as u64 <= HELD_NUMBERS {
                let mut held = vec![0.0; nodes as usize * dim];
                for (node, values) in (0..).zip(held.chunks_exact_mut(dim)) {
                    this.add_node(this.levels.len(), node, |place, value| values[place] += value);
                }
                if let Some(level) = this.levels.last_mut() {
                    level.held = held;
                }
            }
            (nodes, before, after) = (nodes * BRANCHES, after, after * REST);
        }
        this
    }

    /// Adds a node at this depth, with its parents, along the principal axes.
    fn add_node(&self, depth: usize, mut node: u64, mut add: impl FnMut(usize, f32)) {
        for depth in (1..=depth).rev() {
            let level = &self.levels[depth - 1];
            if !level.held.is_empty() {
                let values = &level.held[node as usize * self.setting.dim..][..self.setting.dim];
                values.iter().enumerate().for_each(|(place, &value)| add(place, value));
                return;
            }
            let mut random = Random::of(self.setting.seed, 4 + depth as u64, node);
            if depth > 1 {
                node = skewed(&mut random, self.levels[depth - 2].nodes);
            }
            (0..self.setting.dim).for_each(|place| add(place, level.own * random.normal()));
        }
    }

    /// Draws a vector along the principal axes, with variance 1 in each, into one lane.
    fn draw(&self, random: &mut Random, lane: usize, vectors: &mut [[f32; LANES]]) {
        if random.part() >= IN_FAMILY {
            self.draw_alone(random, lane, vectors);
            return;
        }
        // The number of a family gives its founder again.
        let mut founder = Random::of(self.setting.seed, 4, random.below(self.families) as u64);
        let width = founder.part();
        let apart = WIDEST * width * width;
        self.draw_alone(&mut founder, lane, vectors);
        let (kept, added) = ((1.0 - apart).sqrt(), apart.sqrt());
        for x in vectors {
            x[lane] = kept * x[lane] + added * random.normal();
        }
    }

    fn draw_alone(&self, random: &mut Random, lane: usize, vectors: &mut [[f32; LANES]]) {
        let mut depth = self.levels.len();
        while depth > 0 && random.part() < HIGHER {
            depth -= 1;
        }
        vectors.iter_mut().for_each(|x| x[lane] = 0.0);
        let mut rest = 1.0;
        if let Some(level) = depth.checked_sub(1).map(|above| &self.levels[above]) {
            let node = skewed(random, level.nodes);
            self.add_node(depth, node, |place, value| vectors[place][lane] += value);
            rest = level.rest;
        }
        vectors.iter_mut().for_each(|x| x[lane] += rest * random.normal());
    }
}

/// A number below `end`, which small ones are more often than large ones: some nodes have far more vectors than others.
fn skewed(random: &mut Random, end: u64) -> u64 {
    let unit = random.part();
    ((end as f32 * (unit * unit.sqrt())) as u64).min(end - 1)
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
