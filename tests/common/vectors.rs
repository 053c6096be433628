//! Vectors and centres chosen to break certificates.

use nearfield::Metric;
use nearfield::internals::certificate::Quantizing;
use proptest::prelude::*;

use nearfield_testing::Random;

/// The metrics that kernels compute: the host takes the root of `L2`.
pub(crate) const METRICS: [Metric; 3] = [Metric::L2Squared, Metric::Cosine, Metric::InnerProduct];
/// Queries and rows of a case.
pub(crate) const QUERIES: usize = 5;
pub(crate) const ROWS: usize = 40;

/// Vectors and a centre.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) queries: Vec<f32>,
    pub(crate) rows: Vec<f32>,
    pub(crate) centre: Vec<f32>,
}

pub(crate) fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

fn scaled(vector: &mut [f32], factor: f64) {
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
}

/// A vector at which a screen may go wrong, beside others of its kind: `base` is common to all of them.
fn vector(random: &mut Random, base: &[f32], kind: usize) -> Vec<f32> {
    let dim = base.len();
    let mut one = random.floats(dim);
    let levels = Quantizing::of(Metric::L2, dim).levels as f32;
    match kind {
        // Any length that an index takes.
        0 => {
            let exponent = random.unit() * 49.9;
            let length = norm(&one).max(1e-3);
            scaled(&mut one, 2f64.powf(exponent.into()) / length);
        }
        1 => {
            let length = norm(&one).max(1e-3);
            scaled(&mut one, 2f64.powi([-49, 49][random.below(2)]) / length);
        }
        // Equal, nearly equal, opposite, far from the origin.
        2 => one.copy_from_slice(base),
        3 => one.iter_mut().zip(base).for_each(|(x, m)| *x = m + *x * m * 1e-6),
        4 => one.iter_mut().zip(base).for_each(|(x, m)| *x = -m),
        5 => one.iter_mut().for_each(|x| *x += 1000.0),
        6 => one.iter_mut().zip(base).for_each(|(x, m)| *x = m + *x * 0.01),
        // One dimension that outweighs the others.
        7 => one[0] += 3000.0,
        8 => {
            let place = random.below(dim);
            one[place] *= 1e4;
        }
        // Whole steps, and all half-way between two, on the same side for all of them.
        9 | 10 => {
            one = random.integers(dim, levels as usize);
            one.iter_mut().for_each(|x| *x = if kind == 10 { *x - x.signum() * 0.5 } else { *x });
            one[0] = levels;
        }
        // Orthogonal to half of the others.
        11 => one.iter_mut().skip(random.below(2)).step_by(2).for_each(|x| *x = 0.0),
        12 => one.fill(0.0),
        13 => one.fill(0.37),
        _ => {}
    }
    if norm(&one) < 2f64.powi(-49) { vec![0.0; dim] } else { one }
}

impl Case {
    /// Makes everything from a seed, so that proptest has little to shrink.
    pub(crate) fn new(seed: u64, metric: Metric, dim: usize, centre_kind: usize) -> Self {
        let mut random = Random::new(seed);
        let mut base = random.floats(dim);
        scaled(&mut base, 2f64.powi(random.below(20) as i32 - 10));
        base[0] += 1e-3;
        // Few kinds in a case, so that vectors of one kind meet.
        let kinds: Vec<usize> = (0..3).map(|_| random.below(16)).collect();
        let mut vectors = |count: usize| -> Vec<f32> {
            (0..count)
                .flat_map(|number| {
                    let kind = kinds[(number + random.below(2)) % 3];
                    vector(&mut random, &base, kind)
                })
                .collect()
        };
        let (queries, rows) = (vectors(QUERIES), vectors(ROWS));
        let unit = |row: &[f32]| if metric == Metric::Cosine && norm(row) > 0.0 { norm(row) } else { 1.0 };
        let mut centre = vec![0.0f32; dim];
        if centre_kind > 0 {
            let mut sums = vec![0.0f64; dim];
            for row in rows.chunks_exact(dim) {
                let unit = unit(row);
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) / unit);
            }
            centre.iter_mut().zip(sums).for_each(|(m, sum)| *m = (sum / ROWS as f64) as f32);
        }
        if centre_kind > 1 {
            // Any centre is right, however far away.
            let away = (norm(&centre) * 100.0 + 1.0).min(2f64.powi(50)) / (dim as f64).sqrt();
            centre.iter_mut().for_each(|m| *m += away as f32);
        }
        Self { metric, dim, queries, rows, centre }
    }

    pub(crate) fn query(&self, number: usize) -> &[f32] {
        &self.queries[number * self.dim..][..self.dim]
    }

    pub(crate) fn row(&self, number: usize) -> &[f32] {
        &self.rows[number * self.dim..][..self.dim]
    }
}

/// Mostly small dims, and some at which kernels change.
pub(crate) fn dims() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 1usize..40,
        4 => 40usize..800,
        2 => prop::sample::select(vec![384, 768, 1040, 1041, 1536, 2049, 4096]),
    ]
}
