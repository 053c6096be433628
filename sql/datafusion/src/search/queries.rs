//! The queries of a search.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, exec_err};
use nearfield::Metric;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::metric::distance;
use crate::vectors::{Elements, Number, Vectors, holds_bits, with_elements};

/// Vectors that neighbours are looked for, all of one length.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Sent", into = "Sent")]
pub(crate) struct Queries {
    dim: usize,
    /// Whether they were given as bits and not as numbers. Their elements are bytes then.
    are_bits: bool,
    /// The number of each in the list or table that it comes from, where some are NULL.
    numbers: Vec<u64>,
    /// `[queries, dim]`, as they were given: in one of the two at first, and in the other once it is asked for. f16 and f32 lose nothing
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
}

impl From<Queries> for Sent {
    fn from(queries: Queries) -> Self {
        let (dim, are_bits, values) = (queries.dim, queries.are_bits, queries.values().to_vec());
        Self { dim, are_bits, values, numbers: queries.numbers }
    }
}

impl TryFrom<Sent> for Queries {
    type Error = DataFusionError;

    fn try_from(Sent { dim, are_bits, values, numbers }: Sent) -> Result<Self> {
        let is_whole =
            dim.checked_mul(numbers.len()) == Some(values.len()) && (dim > 0 || numbers.is_empty());
        if !is_whole || !values.iter().all(|x| x.is_finite()) {
            let (count, given) = (numbers.len(), values.len());
            return exec_err!(
                "queries: needed {count} finite vectors of {dim} elements, given {given} numbers"
            );
        }
        Ok(Self { dim, are_bits, numbers, in_f64: values.into(), in_f32: OnceLock::new() })
    }
}

impl PartialEq for Queries {
    fn eq(&self, other: &Self) -> bool {
        let given = |queries: &Self| (queries.dim, queries.are_bits);
        given(self) == given(other) && self.values() == other.values() && self.numbers == other.numbers
    }
}

impl Eq for Queries {}

impl Hash for Queries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Not the values, of which two that are equal may have other bits.
        (self.dim, &self.numbers).hash(state);
    }
}

impl Queries {
    /// Takes the vectors of a column that are not NULL. `argument` names it in errors.
    pub(crate) fn of_column(column: &ArrayRef, argument: &str) -> Result<Self> {
        let vectors = Vectors::new(column)?;
        let (mut dim, mut numbers, mut ranges) = (0, vec![], vec![]);
        for row in 0..vectors.len() {
            let Some(range) = vectors.range(row) else { continue };
            if range.is_empty() {
                return exec_err!("{argument}: needed vectors with elements, vector {row} has none");
            }
            if ranges.is_empty() {
                dim = range.len();
            }
            if range.len() != dim {
                return exec_err!(
                    "{argument}: needed vectors of {dim} elements as the first has, vector {row} has {}",
                    range.len()
                );
            }
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
        Ok(Self { dim, are_bits: holds_bits(column.data_type()), numbers, in_f64, in_f32 })
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
        (12 * self.dim + 8) * self.numbers.len()
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
