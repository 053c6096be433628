//! Bounds of the scores of documents.

use std::hint::black_box;
use std::ops::Range;

use crate::error::Result;
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::documents::{DocumentRows, TokenQueries};
use crate::host::integers::packed::GROUP;
use crate::host::rows::group::GroupTerms;
use crate::host::search::schedule::{GROUPS, QUERIES};
use crate::host::search::scorer::{Scorer, Scores};
use crate::interrupt::Stop;
use crate::memory;
use crate::screen::certificate::{QueryTerms, Terms};

/// What bounds the scores of a query, summed over its tokens: a score lies within `base + nearness` plus or minus
/// `along * length + across * residual + slack`, with the sum of nearnesses and the largest length and residual of a document's tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QuerySums {
    base: f64,
    along: f64,
    across: f64,
    slack: f64,
}

impl QuerySums {
    pub(crate) fn add(&mut self, weight: f32, terms: &QueryTerms) {
        let [weight, base, along, across, slack] =
            [weight, terms.base, terms.along, terms.across, terms.slack].map(f64::from);
        // The base of a lower end has the slack taken off.
        self.base -= weight * (base + slack);
        self.along += weight * along;
        self.across += weight * across;
        self.slack += weight * slack;
    }

    /// Makes room for an error of the sum of nearnesses, relative to the magnitude of each. `centre` is the length of the centre of codes.
    pub(crate) fn widen(&mut self, weight: f32, error: f32, terms: Terms, centre: f32) {
        let [weight, error, length, residual, centre] =
            [weight, error, terms.length, terms.residual, centre].map(f64::from);
        // |s_q t_q| (|x - m| + |r_x|) + |m| (|x - m| + |m|) is not below a nearness.
        let size = weight * error * (length + residual);
        self.along += size + weight * error * centre;
        self.across += size;
        // A product or a sum that is flushed loses at most 2^-126.
        self.slack += weight * error * centre * centre + 2f64.powi(-125);
    }

    /// The lower and the upper bound of a score.
    pub(crate) fn bounds(&self, nearness: f64, [length, residual]: [f32; 2]) -> [f32; 2] {
        let width = self.along * f64::from(length) + self.across * f64::from(residual) + self.slack;
        let middle = self.base + nearness;
        if !middle.is_finite() {
            // A sum beyond f32 tells nothing.
            return [f32::NEG_INFINITY, f32::INFINITY];
        }
        // f32 rounds to nearest: one step further holds the number.
        [((middle - width) as f32).next_down(), ((middle + width) as f32).next_up()]
    }
}

/// The largest nearness of each token of some queries so far, lane by lane, and the largest terms of a document.
struct Document {
    nearest: Vec<[f32; GROUP]>,
    longest: [f32; 2],
}

impl DocumentRows<'_> {
    /// The bounds of the scores of these documents, whose places ascend: `[documents, queries]`, lower and upper.
    pub(crate) fn bounds(
        &self,
        queries: &TokenQueries<'_>,
        places: &[u32],
        stop: Stop<'_>,
    ) -> Result<Vec<[f32; 2]>> {
        let tokens = queries.weights.len();
        let mut sums = memory::filled(places.len() * queries.len(), 0.0f64)?;
        let mut longest = memory::filled(places.len(), [0.0f32; 2])?;
        let mut of_queries = memory::filled(queries.len(), QuerySums::default())?;
        let mut query = 0;
        for first in (0..tokens).step_by(QUERIES) {
            let range = first..tokens.min(first + QUERIES);
            let mut scorer = Scorer::new(self.rows, None, queries.batch(range.clone()), stop)?;
            let terms = scorer.choose(memory::collect(0..range.len() as u32)?)?.terms;
            let own_query = memory::collect(range.clone().map(|token| {
                while queries.offsets[query + 1] <= token {
                    query += 1;
                }
                query
            }))?;
            for ((&query, terms), &weight) in
                own_query.iter().zip(&terms).zip(&queries.weights[range.clone()])
            {
                of_queries[query].add(weight, terms);
            }
            let weights = &queries.weights[range];
            self.nearest(&mut scorer, &terms, places, |number, document| {
                longest[number] = document.longest;
                let sums = &mut sums[number * queries.len()..][..queries.len()];
                for ((nearest, &query), &weight) in document.nearest.iter().zip(&own_query).zip(weights) {
                    sums[query] += f64::from(weight) * f64::from(largest(*nearest));
                }
            })?;
        }
        let mut bounds = memory::with_room(sums.len())?;
        for (sums, longest) in sums.chunks_exact(queries.len().max(1)).zip(longest) {
            bounds.extend(
                of_queries.iter().zip(sums).map(|(query, &nearness)| query.bounds(nearness, longest)),
            );
        }
        Ok(bounds)
    }

    /// Finds the nearest token of each document for each token of the scorer's, and gives them to `take` with the document's number in the list.
    fn nearest(
        &self,
        scorer: &mut Scorer<'_>,
        terms: &[QueryTerms],
        places: &[u32],
        mut take: impl FnMut(usize, &Document),
    ) -> Result<()> {
        let none = [f32::NEG_INFINITY; GROUP];
        let mut document = Document { nearest: memory::filled(terms.len(), none)?, longest: [0.0; 2] };
        let mut number = 0;
        while number < places.len() {
            // Documents side by side are scored together.
            let start = self.slots(places[number]).start;
            let mut last = number;
            while last + 1 < places.len()
                && self.slots(places[last + 1]).start == self.slots(places[last]).end
            {
                last += 1;
            }
            let end = self.slots(places[last]).end.div_ceil(GROUP);
            let mut group = start / GROUP;
            while group < end {
                let groups = group..end.min(group + GROUPS);
                let (group_terms, scores) = scorer.score(groups.clone())?;
                for (at, own) in group_terms.iter().enumerate() {
                    let lanes = (group + at) * GROUP..(group + at + 1) * GROUP;
                    while number <= last {
                        let slots = self.slots(places[number]);
                        let (from, to) = (slots.start.max(lanes.start), slots.end.min(lanes.end));
                        if from >= to {
                            break;
                        }
                        let within = from - lanes.start..to - lanes.start;
                        match scores {
                            Scores::Integers(scores) => {
                                // A step that the compiler knows would make it take sixteen queries at a time, and gather their lanes.
                                let scores = (scores.as_chunks().0, at * terms.len(), black_box(1));
                                document.add(own, terms, within, scores, |score: i32| score as f32);
                            }
                            Scores::Floats(scores) => {
                                let scores = (scores.as_chunks().0, at, group_terms.len());
                                document.add(own, terms, within, scores, |score: f32| score);
                            }
                        }
                        if slots.end > lanes.end {
                            break;
                        }
                        take(number, &document);
                        document.nearest.fill(none);
                        document.longest = [0.0; 2];
                        number += 1;
                    }
                }
                group = groups.end;
            }
            number = last + 1;
        }
        Ok(())
    }
}

impl Document {
    /// Takes some lanes of a group in, by its scores: those of query `q` are number `first + q * step`.
    #[inline(always)]
    fn add<T: Copy>(
        &mut self,
        own: &GroupTerms,
        terms: &[QueryTerms],
        within: Range<usize>,
        (scores, first, step): (&[[T; GROUP]], usize, usize),
        widen: impl Fn(T) -> f32,
    ) {
        for lane in within.clone() {
            let [length, residual] = &mut self.longest;
            *length = length.max(own.length[lane]);
            *residual = residual.max(own.residual[lane]);
        }
        // Lanes of other documents are as far as nothing is.
        let mut floor = [f32::INFINITY; GROUP];
        floor[within.clone()].copy_from_slice(&own.floor[within]);
        let scale = own.scale;
        with_widest_registers(
            #[inline(always)]
            || {
                for (query, (nearest, terms)) in self.nearest.iter_mut().zip(terms).enumerate() {
                    let Some(scores) = scores[first + query * step..].first() else { return };
                    let before = *nearest;
                    let mut next = [0.0; GROUP];
                    for lane in 0..GROUP {
                        let nearness = terms.factor * (scale[lane] * widen(scores[lane])) - floor[lane];
                        next[lane] = if nearness > before[lane] { nearness } else { before[lane] };
                    }
                    *nearest = next;
                }
            },
        );
    }
}

/// The largest of some lanes.
#[inline(always)]
fn largest(mut lanes: [f32; GROUP]) -> f32 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = if lanes[lane + half] > lanes[lane] { lanes[lane + half] } else { lanes[lane] };
        }
    }
    lanes[0]
}
