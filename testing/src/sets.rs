//! Sets of vectors, and the true neighbours in them.

use nearfield::Metric;

use crate::Random;

/// Centres of [`clustered`].
const CENTRES: usize = 64;

/// Vectors around centres: `[rows, dim]`. Sets of one dim have the same centres, whatever the seed.
pub fn clustered(rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    let centres = Random::new(0xce).floats(CENTRES * dim);
    let mut random = Random::new(seed);
    let mut one = || {
        let centre = random.below(CENTRES) * dim;
        let noise = random.floats(dim);
        noise.iter().zip(&centres[centre..]).map(|(noise, centre)| centre + 0.5 * noise).collect::<Vec<f32>>()
    };
    (0..rows).flat_map(|_| one()).collect()
}

/// The ids and distances of the k nearest rows of each query, `[queries, k]`, by sorting all rows in f64 by (distance, id). With fewer
/// rows than k, ids are padded with -1 and distances with NaN.
pub fn nearest(metric: Metric, rows: &[f32], queries: &[f32], dim: usize, k: usize) -> (Vec<i64>, Vec<f32>) {
    let order = if metric == Metric::L2 { Metric::L2Squared } else { metric };
    let (mut ids, mut distances) = (vec![], vec![]);
    for query in queries.chunks(dim) {
        let mut all: Vec<(f64, i64)> =
            rows.chunks(dim).zip(0..).map(|(row, id)| (order.exact(query, row) + 0.0, id)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.resize(k.max(all.len()), (f64::NAN, -1));
        for &(distance, id) in &all[..k] {
            ids.push(id);
            distances.push(if metric == Metric::L2 { distance.sqrt() } else { distance } as f32);
        }
    }
    (ids, distances)
}
