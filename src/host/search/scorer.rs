//! Scores of groups of 16 rows for some queries: dot products of integers, or of f32 where there is no quantised copy; of bits, how many both
//! vectors have.

use std::ops::Range;

use crate::error::Result;
use crate::host::integers::dots::dots;
use crate::host::integers::isa::Isa;
use crate::host::integers::packed::{GROUP, PackedQueries, PackedRows};
use crate::host::rows::gathered::Gathered;
use crate::host::rows::group::GroupTerms;
use crate::host::rows::norms::SHORTEST;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::Batch;
use crate::host::search::products::{common_bits, products};
use crate::interrupt::Stop;
use crate::memory;
use crate::metric::Form;
use crate::screen::certificate::{Margin, QueryTerms, Terms};

/// Products of elements between two looks at whether to stop: they take about a millisecond.
const WORK: usize = 1 << 24;

/// Scores rows for queries of a batch.
pub(crate) struct Scorer<'a> {
    rows: &'a HostRows,
    pub(crate) queries: Batch<'a>,
    /// The terms of every query of the batch.
    terms: Vec<QueryTerms>,
    operands: Operands<'a>,
    stop: Stop<'a>,
    /// Products of elements since the last look at it.
    work: usize,
    /// How many queries rows are scored for.
    chosen: usize,
}

/// The queries that rows are scored for.
pub(crate) struct Chosen {
    /// Their places in the batch.
    pub(crate) places: Vec<u32>,
    pub(crate) terms: Vec<QueryTerms>,
}

/// The operands of scores, and scratch memory.
enum Operands<'a> {
    /// The codes of rows, or of gathered ones, and queries quantised alike.
    Integers {
        rows: &'a PackedRows,
        terms: &'a [GroupTerms],
        integers: Vec<i8>,
        packed: PackedQueries,
        scores: Vec<i32>,
    },
    /// Rows and queries in f32.
    Floats {
        form: Form,
        margin: Margin,
        terms: Vec<GroupTerms>,
        chosen: Vec<f32>,
        scores: Vec<f32>,
        widened: Vec<f32>,
        /// The slots of the rows; none where a row lies in the slot of its place.
        slots: Option<&'a [u32]>,
    },
}

/// Scores of groups of rows.
pub(crate) enum Scores<'a> {
    /// `[group][query][16]`
    Integers(&'a [i32]),
    /// `[query][group][16]`
    Floats(&'a [f32]),
}

impl<'a> Scorer<'a> {
    /// A scorer of all rows or of gathered ones, for which queries are still to be chosen.
    pub(crate) fn new(
        rows: &'a HostRows,
        gathered: Option<&'a Gathered>,
        queries: Batch<'a>,
        stop: Stop<'a>,
    ) -> Result<Self> {
        let (Some(quantized), Some((codes, row_terms))) = (&rows.quantized, rows.codes()) else {
            let form = Form::of_products(rows.metric);
            let margin = Margin::of_rounding(form, rows.dim());
            let terms =
                queries.squared.iter().map(|&squared| QueryTerms::new(form, margin, terms_of(form, squared)));
            let terms = memory::collect(terms)?;
            let operands = Operands::Floats {
                form,
                margin,
                terms: vec![],
                chosen: vec![],
                scores: vec![],
                widened: vec![],
                slots: gathered.map(|gathered| &gathered.slots[..]),
            };
            return Ok(Self { rows, queries, terms, operands, stop, work: 0, chosen: 0 });
        };
        let quantizer = &quantized.quantizer;
        let (form, margin) = (quantizer.form, quantizer.margin);
        let (integers, terms) = quantizer.quantize_all(queries.vectors, queries.squared)?;
        let terms = memory::collect(terms.into_iter().map(|terms| QueryTerms::new(form, margin, terms)))?;
        let isa = if quantizer.counts_bits() { Isa::of_bits() } else { Isa::detect() };
        let packed = PackedQueries::new(&[], rows.dim(), isa)?;
        let (packed_rows, row_terms) = match gathered.and_then(|gathered| gathered.codes.as_ref()) {
            Some(own) => (&own.rows, &own.terms[..]),
            None => (codes, row_terms),
        };
        let operands =
            Operands::Integers { rows: packed_rows, terms: row_terms, integers, packed, scores: vec![] };
        Ok(Self { rows, queries, terms, operands, stop, work: 0, chosen: 0 })
    }

    /// Scores rows for the queries in these places from now on.
    pub(crate) fn choose(&mut self, places: Vec<u32>) -> Result<Chosen> {
        let dim = self.rows.dim();
        match &mut self.operands {
            Operands::Integers { integers, packed, .. } => {
                let mut some = memory::with_room(places.len() * dim)?;
                places
                    .iter()
                    .for_each(|&place| some.extend_from_slice(&integers[place as usize * dim..][..dim]));
                *packed = PackedQueries::new(&some, dim, packed.isa())?;
            }
            Operands::Floats { chosen, .. } => {
                chosen.clear();
                memory::reserve(chosen, places.len() * dim)?;
                places
                    .iter()
                    .for_each(|&place| chosen.extend_from_slice(self.queries.vectors.row(place as usize)));
            }
        }
        self.chosen = places.len();
        let terms = memory::collect(places.iter().map(|&place| self.terms[place as usize]))?;
        Ok(Chosen { places, terms })
    }

    /// The terms of groups of rows, and their scores for the chosen queries.
    pub(crate) fn score(&mut self, groups: Range<usize>) -> Result<(&[GroupTerms], Scores<'_>)> {
        self.work += groups.len() * GROUP * self.chosen * self.rows.dim();
        if self.work >= WORK {
            self.work = 0;
            self.stop.check()?;
        }
        Ok(match &mut self.operands {
            Operands::Integers { rows, terms, packed, scores, .. } => {
                memory::resize(scores, groups.len() * packed.queries * GROUP, 0)?;
                dots(rows, groups.clone(), packed, scores);
                (&terms[groups], Scores::Integers(scores))
            }
            Operands::Floats { form, margin, terms, chosen, scores, widened, slots } => {
                let values = &self.rows.values;
                let end = slots.map_or(self.rows.end(), <[u32]>::len);
                let places = groups.start * GROUP..end.min(groups.end * GROUP);
                terms.clear();
                memory::resize(terms, groups.len(), GroupTerms::default())?;
                for place in places.clone() {
                    let (group, lane) = (place / GROUP - groups.start, place % GROUP);
                    let slot = slots.map_or(place, |slots| slots[place] as usize);
                    terms[group].set(lane, *form, *margin, terms_of(*form, values.squared[slot]));
                }
                let pitch = groups.len() * GROUP;
                memory::resize(scores, chosen.len() / self.rows.dim() * pitch, 0.0)?;
                memory::reserve(widened, places.len() * self.rows.dim())?;
                let rows = match slots {
                    Some(slots) => values.chosen(&slots[places], widened),
                    None => values.widened(places, widened),
                };
                let multiply = if self.rows.metric.counts_bits() { common_bits } else { products };
                multiply((chosen, self.rows.dim()), rows, scores, pitch);
                (terms, Scores::Floats(scores))
            }
        })
    }
}

/// The terms of a vector that is not quantised.
#[inline(always)]
fn terms_of(form: Form, squared: f64) -> Terms {
    if form.scales_by_norms() && squared > 0.0 && squared < SHORTEST {
        // A centroid of nearly opposite rows. Its inverse norm may exceed f32, and its products may lose a lot relative to its length:
        // nothing is known of its direction.
        return Terms { residual: 1.0, ..Terms::default() };
    }
    let inverse = if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 };
    Terms::of_norms(form, squared as f32, inverse as f32)
}
