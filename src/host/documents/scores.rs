//! The scores of documents as they are reported: in f64, rounded once.

use crate::error::Result;
use crate::host::arithmetic::sums::dot;
use crate::host::documents::{DocumentRows, TokenQueries};
use crate::host::integers::packed::GROUP;
use crate::host::search::schedule::{GROUPS, QUERIES};
use crate::host::search::scorer::{Scorer, Scores};
use crate::interrupt::Stop;
use crate::memory;

/// What bounds the product of a token of a query with a token of a document.
#[derive(Debug, Clone, Copy)]
struct Product {
    nearness: f32,
    width: f32,
}

impl DocumentRows<'_> {
    /// The score of each of some documents for a query. Only tokens that can be the nearest of a query's token are multiplied in f64.
    pub(crate) fn scores(
        &self,
        queries: &TokenQueries<'_>,
        query: usize,
        places: &[u32],
        stop: Stop<'_>,
    ) -> Result<Vec<f32>> {
        let tokens = queries.offsets[query]..queries.offsets[query + 1];
        let mut sums = memory::filled(places.len(), 0.0f64)?;
        let mut products: Vec<Product> = vec![];
        let mut wide = memory::filled(self.rows.values.scratch_len(), 0.0)?;
        for first in tokens.clone().step_by(QUERIES) {
            let range = first..tokens.end.min(first + QUERIES);
            let mut scorer = Scorer::new(self.rows, None, queries.batch(range.clone()), stop)?;
            let terms = scorer.choose(memory::collect(0..range.len() as u32)?)?.terms;
            for (&place, sum) in places.iter().zip(&mut sums) {
                let slots = self.slots(place);
                memory::resize(
                    &mut products,
                    slots.len() * terms.len(),
                    Product { nearness: 0.0, width: 0.0 },
                )?;
                let (mut group, end) = (slots.start / GROUP, slots.end.div_ceil(GROUP));
                while group < end {
                    let groups = group..end.min(group + GROUPS);
                    let (group_terms, scores) = scorer.score(groups.clone())?;
                    for (at, own) in group_terms.iter().enumerate() {
                        let lanes = (group + at) * GROUP..(group + at + 1) * GROUP;
                        for slot in slots.start.max(lanes.start)..slots.end.min(lanes.end) {
                            let lane = slot - lanes.start;
                            let products = &mut products[(slot - slots.start) * terms.len()..][..terms.len()];
                            for (number, (own_terms, product)) in terms.iter().zip(products).enumerate() {
                                let score = match scores {
                                    Scores::Integers(scores) => {
                                        scores[(at * terms.len() + number) * GROUP + lane] as f32
                                    }
                                    Scores::Floats(scores) => {
                                        scores[(number * group_terms.len() + at) * GROUP + lane]
                                    }
                                };
                                *product = Product {
                                    nearness: own_terms.factor * (own.scale[lane] * score) - own.floor[lane],
                                    width: own_terms.along * own.length[lane]
                                        + own_terms.across * own.residual[lane]
                                        + own_terms.slack,
                                };
                            }
                        }
                    }
                    group = groups.end;
                }
                for (number, token) in range.clone().enumerate() {
                    let own = || products.iter().skip(number).step_by(terms.len());
                    let least = own()
                        .map(|product| product.nearness - product.width)
                        .fold(f32::NEG_INFINITY, f32::max);
                    let vector = queries.vectors.row(token);
                    let mut most = f64::NEG_INFINITY;
                    // `nearness + width` and `least` are rounded: the margin has room for both.
                    for (slot, product) in slots.clone().zip(own()) {
                        if product.nearness + product.width >= least {
                            most = most.max(dot(vector, self.rows.values.row(slot, &mut wide)));
                        }
                    }
                    *sum += f64::from(queries.weights[token]) * most;
                }
            }
        }
        // Turns -0 into 0.
        memory::collect(sums.into_iter().map(|sum| sum as f32 + 0.0))
    }
}
