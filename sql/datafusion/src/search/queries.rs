//! The queries of a search.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, exec_err};
use nearfield::{MatrixView, Metric, TokenVectors};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::metric::distance;
use crate::vectors::{Elements, Number, Vectors, holds_bits, lists, with_elements};

/// Vectors that neighbours are looked for, all of one length, or documents of several such vectors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Sent", into = "Sent")]
pub(crate) struct Queries {
    dim: usize,
    /// Whether they were given as bits and not as numbers. Their elements are bytes then.
    are_bits: bool,
    /// The number of each in the list or table that it comes from, where some are NULL.
    numbers: Vec<u64>,
    /// Where the tokens of each document begin, and the end of the last. Vectors have none.
    offsets: Vec<usize>,
    /// `[queries, dim]`, or `[tokens, dim]`, as they were given: in one of the two at first, and in the other once it is asked for. f16 and f32 lose nothing
    /// in either.
    in_f64: OnceLock<Vec<f64>>,
    in_f32: OnceLock<Vec<f32>>,
}

/// A query, in the kind of numbers that the answers of all follow from.
pub(crate) enum Given<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// Queries in a message.
#[derive(Serialize, Deserialize)]
struct Sent {
    dim: usize,
    are_bits: bool,
    values: Vec<f64>,
    numbers: Vec<u64>,
    offsets: Vec<usize>,
}

impl From<Queries> for Sent {
    fn from(queries: Queries) -> Self {
        let (dim, are_bits, values) = (queries.dim, queries.are_bits, queries.values().to_vec());
        Self { dim, are_bits, values, numbers: queries.numbers, offsets: queries.offsets }
    }
}

impl TryFrom<Sent> for Queries {
    type Error = DataFusionError;

    fn try_from(Sent { dim, are_bits, values, numbers, offsets }: Sent) -> Result<Self> {
        let vectors = offsets.last().copied().unwrap_or(numbers.len());
        let are_documents = offsets.len() == numbers.len() + 1 && offsets.is_sorted_by(|a, b| a < b);
        let is_whole = (offsets.is_empty() || offsets[0] == 0 && are_documents)
            && dim.checked_mul(vectors) == Some(values.len())
            && (dim > 0 || numbers.is_empty());
        if !is_whole || !values.iter().all(|x| x.is_finite()) {
            let (count, given) = (numbers.len(), values.len());
            return exec_err!(
                "queries: needed {count} finite vectors of {dim} elements, given {given} numbers"
            );
        }
        Ok(Self { dim, are_bits, numbers, offsets, in_f64: values.into(), in_f32: OnceLock::new() })
    }
}

impl PartialEq for Queries {
    fn eq(&self, other: &Self) -> bool {
        let given = |queries: &Self| (queries.dim, queries.are_bits);
        given(self) == given(other)
            && self.values() == other.values()
            && (&self.numbers, &self.offsets) == (&other.numbers, &other.offsets)
    }
}

impl Eq for Queries {}

impl Hash for Queries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Not the values, of which two that are equal may have other bits.
        (self.dim, &self.numbers, &self.offsets).hash(state);
    }
}

impl Queries {
    /// Takes the vectors of a column that are not NULL. `argument` names it in errors.
    pub(crate) fn of_column(column: &ArrayRef, argument: &str) -> Result<Self> {
        let vectors = Vectors::new(column)?;
        let (mut dim, mut numbers, mut ranges) = (0, vec![], vec![]);
        for row in 0..vectors.len() {
            let Some(range) = vectors.range(row) else { continue };
            dim = checked_dim(dim, range.len(), argument, format_args!("vector {row}"))?;
            numbers.push(row as u64);
            ranges.push(range);
        }
        let has_others = |range: &Range<usize>| {
            with_elements!(vectors.elements, |x| !x[range.clone()]
                .iter()
                .fold(true, |all, x| all & x.to_f64().is_finite()))
        };
        if let Some(place) = ranges.par_iter().position_first(has_others) {
            return exec_err!("{argument}: needed finite elements, vector {} has others", numbers[place]);
        }
        let (in_f64, in_f32) = match &vectors.elements {
            Elements::F64(x) => (gathered(x, &ranges, dim, Number::to_f64).into(), OnceLock::new()),
            Elements::F32(x) => (OnceLock::new(), gathered(x, &ranges, dim, Number::to_f32).into()),
            Elements::F16(x) => (OnceLock::new(), gathered(x, &ranges, dim, Number::to_f32).into()),
            Elements::I8(x) => (OnceLock::new(), gathered(x, &ranges, dim, Number::to_f32).into()),
            Elements::U8(x) => (OnceLock::new(), gathered(x, &ranges, dim, Number::to_f32).into()),
        };
        let are_bits = holds_bits(column.data_type());
        Ok(Self { dim, are_bits, numbers, offsets: vec![], in_f64, in_f32 })
    }

    /// Takes the documents of columns, whose rows are numbered from `first` on, in f32. One that is NULL, has a NULL in it or has no token
    /// is left out. `argument` names them in errors.
    pub(crate) fn of_documents(columns: &[ArrayRef], argument: &str, first: u64) -> Result<Self> {
        let (mut dim, mut numbers, mut offsets, mut values) = (0, vec![], vec![0], vec![]);
        let (mut tokens, mut number) = (0, first);
        for column in columns {
            let documents = lists(column)?;
            let vectors = Vectors::new(documents.values())?;
            let mut ranges = vec![];
            for row in 0..documents.len() {
                let own = if documents.is_null(row) { 0..0 } else { documents.element_range(row) };
                if let Some(mut own) = own.map(|token| vectors.range(token)).collect::<Option<Vec<_>>>()
                    && !own.is_empty()
                {
                    let name = format_args!("a token of document {number}");
                    for token in &own {
                        dim = checked_dim(dim, token.len(), argument, name)?;
                    }
                    tokens += own.len();
                    offsets.push(tokens);
                    numbers.push(number);
                    ranges.append(&mut own);
                }
                number += 1;
            }
            with_elements!(vectors.elements, |x| values.append(&mut gathered(
                x,
                &ranges,
                dim,
                Number::to_f32
            )));
        }
        let (in_f64, in_f32) = (OnceLock::new(), OnceLock::new());
        let documents = Self { dim, are_bits: false, numbers, offsets, in_f64, in_f32 };
        if let Some(place) = values.par_iter().position_first(|x: &f32| !x.is_finite()) {
            return exec_err!(
                "{argument}: needed elements that are finite in f32, document {} has others",
                documents.number_of_token(place / documents.dim)
            );
        }
        Ok(Self { in_f32: values.into(), ..documents })
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn are_bits(&self) -> bool {
        self.are_bits
    }

    pub(crate) fn values(&self) -> &[f64] {
        self.in_f64.get_or_init(|| converted(self.in_f32.get(), f64::from))
    }

    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// All elements in f32.
    pub(crate) fn to_f32(&self) -> &[f32] {
        self.in_f32.get_or_init(|| converted(self.in_f64.get(), |x| x as f32))
    }

    pub(crate) fn query(&self, place: usize) -> &[f64] {
        &self.values()[place * self.dim..][..self.dim]
    }

    /// A query as it was given. Those of the other numbers are made for none.
    pub(crate) fn given(&self, place: usize) -> Given<'_> {
        let range = place * self.dim..(place + 1) * self.dim;
        match (self.in_f64.get(), self.in_f32.get()) {
            (None, Some(values)) => Given::F32(&values[range]),
            _ => Given::F64(&self.values()[range]),
        }
    }

    /// The distance of two queries from each other, or none where it is not defined.
    pub(crate) fn distance(&self, metric: Metric, a: usize, b: usize) -> Option<f64> {
        match (self.given(a), self.given(b)) {
            (Given::F32(a), Given::F32(b)) => distance(metric, a, b),
            _ => distance(metric, self.query(a), self.query(b)),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        12 * self.dim * self.offsets.last().unwrap_or(&self.count()) + 8 * (self.count() + self.offsets.len())
    }

    /// The tokens of all documents.
    pub(crate) fn tokens(&self) -> nearfield::Result<TokenVectors<'_>> {
        TokenVectors::new(MatrixView::new(self.to_f32(), self.dim)?, &self.offsets)
    }

    /// The tokens of a document.
    pub(crate) fn document(&self, place: usize) -> &[f32] {
        &self.to_f32()[self.offsets[place] * self.dim..self.offsets[place + 1] * self.dim]
    }

    /// The most tokens that a document has.
    pub(crate) fn longest(&self) -> usize {
        self.offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
    }

    /// The number of the document that has a token.
    pub(crate) fn number_of_token(&self, token: usize) -> u64 {
        self.numbers[self.offsets.partition_point(|&start| start <= token) - 1]
    }
}

/// The length of all vectors, which `dim` is unless it is 0, where the next one has `len` elements.
fn checked_dim(dim: usize, len: usize, argument: &str, name: fmt::Arguments<'_>) -> Result<usize> {
    match len {
        0 => exec_err!("{argument}: needed vectors with elements, {name} has none"),
        _ if dim != 0 && dim != len => {
            exec_err!("{argument}: needed vectors of {dim} elements as the first has, {name} has {len}")
        }
        _ => Ok(len),
    }
}

/// The elements of all vectors, one after the other.
fn gathered<T: Number, U: Copy + Default + Send + Sync>(
    elements: &[T],
    ranges: &[Range<usize>],
    dim: usize,
    convert: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    let mut values = vec![U::default(); dim * ranges.len()];
    values.par_chunks_mut(dim.max(1)).zip(ranges).for_each(|(values, range)| {
        values.iter_mut().zip(&elements[range.clone()]).for_each(|(value, &x)| *value = convert(x));
    });
    values
}

fn converted<T: Copy + Sync, U: Send>(values: Option<&Vec<T>>, convert: impl Fn(T) -> U + Sync) -> Vec<U> {
    values.map(|values| values.par_iter().map(|&x| convert(x)).collect()).unwrap_or_default()
}
