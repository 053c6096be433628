//! MaxSim in f64, and the judge of an answer.

use std::collections::HashMap;

use nearfield::DocumentScore;

/// A document's score in f64, and how far a reported one may be from it.
#[derive(Debug, Clone, Copy)]
pub struct TrueScore {
    pub id: u64,
    pub score: f64,
    pub bound: f64,
}

impl TrueScore {
    /// The sum, over the tokens of a query, of the largest inner product with a token of the document, times the token's weight.
    pub fn new(query: &[f32], weights: &[f32], (id, document): (u64, &[f32]), dim: usize) -> Self {
        let dot = |a: &[f32], b: &[f32]| -> (f64, f64) {
            let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
            products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()))
        };
        let unit = f64::from(f32::EPSILON);
        let each = query.chunks_exact(dim).zip(weights);
        each.fold(Self { id, score: 0.0, bound: 0.0 }, |so_far, (token, &weight)| {
            let products = document.chunks_exact(dim).map(|other| dot(token, other));
            let (most, size) = products.fold((f64::NEG_INFINITY, 0.0f64), |(most, size), (product, own)| {
                (most.max(product), size.max(own))
            });
            let weight = f64::from(weight);
            let bound = weight * size * unit * (dim as f64 + 16.0);
            Self { id, score: so_far.score + weight * most, bound: so_far.bound + bound }
        })
    }

    /// Whether a reported score is right.
    pub fn is(&self, reported: f32) -> bool {
        (f64::from(reported) - self.score).abs() <= self.bound
    }
}

/// The fault of the answer to a query: each score is right, larger ones come first and equal ones by the smaller id, and no document that is
/// left out has a larger one.
pub fn judge(found: &[DocumentScore], k: usize, truth: &[TrueScore]) -> Result<(), String> {
    if found.len() != k.min(truth.len()) {
        return Err(format!("{} documents, wanted {k} of {}", found.len(), truth.len()));
    }
    let mut missing: HashMap<u64, TrueScore> = truth.iter().map(|one| (one.id, *one)).collect();
    for hit in found {
        let Some(wanted) = missing.remove(&hit.id) else {
            return Err(format!("{hit:?} may not be found, or is found twice"));
        };
        if !wanted.is(hit.score) {
            return Err(format!("{hit:?}, not {wanted:?}"));
        }
    }
    let is_ordered = |pair: &&[DocumentScore]| {
        pair[0].score > pair[1].score || pair[0].score == pair[1].score && pair[0].id < pair[1].id
    };
    if let Some(pair) = found.windows(2).find(|pair| !is_ordered(pair)) {
        return Err(format!("{:?} before {:?}", pair[0], pair[1]));
    }
    let Some(last) = found.last() else { return Ok(()) };
    match missing.values().find(|one| one.score - one.bound > f64::from(last.score)) {
        Some(one) => Err(format!("{one:?} is not found, but {last:?}")),
        None => Ok(()),
    }
}
