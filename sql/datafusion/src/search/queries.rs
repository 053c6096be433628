//! The queries of a search.

use std::ops::Range;
use std::sync::OnceLock;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};
use rayon::prelude::*;

use crate::vectors::{Elements, Number, Vectors};

/// Vectors that neighbours are looked for, all of one length.
#[derive(Debug, Clone)]
pub(crate) struct Queries {
    dim: usize,
    /// The number of each in the list or table that it comes from, where some are NULL.
    numbers: Vec<u64>,
    /// `[queries, dim]`, as they were given: in one of the two at first, and in the other once it is asked for. f16 and f32 lose nothing
    /// in either.
    in_f64: OnceLock<Vec<f64>>,
    in_f32: OnceLock<Vec<f32>>,
}

impl PartialEq for Queries {
    fn eq(&self, other: &Self) -> bool {
        (self.dim, self.values(), &self.numbers) == (other.dim, other.values(), &other.numbers)
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
        let (in_f64, in_f32) = (OnceLock::new(), OnceLock::new());
        let other = match vectors.elements {
            Elements::F64(elements) => {
                let values = in_f64.get_or_init(|| gathered(elements, &ranges, dim, Number::to_f64));
                place_of_others(values, dim)
            }
            Elements::F32(elements) => {
                let values = in_f32.get_or_init(|| gathered(elements, &ranges, dim, Number::to_f32));
                place_of_others(values, dim)
            }
            Elements::F16(elements) => {
                let values = in_f32.get_or_init(|| gathered(elements, &ranges, dim, Number::to_f32));
                place_of_others(values, dim)
            }
        };
        match other {
            Some(place) => {
                exec_err!("{argument}: needed finite elements, vector {} has others", numbers[place])
            }
            None => Ok(Self { dim, numbers, in_f64, in_f32 }),
        }
    }

    /// Queries with numbers of their own, as a codec sends them.
    pub(crate) fn from_parts(dim: usize, values: Vec<f64>, numbers: Vec<u64>) -> Result<Self> {
        let needed = dim.checked_mul(numbers.len());
        if needed != Some(values.len())
            || (dim == 0 && !numbers.is_empty())
            || !values.iter().all(|x| x.is_finite())
        {
            return exec_err!(
                "queries: needed {} finite vectors of {dim} elements, given {} numbers",
                numbers.len(),
                values.len()
            );
        }
        Ok(Self { dim, numbers, in_f64: values.into(), in_f32: OnceLock::new() })
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
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

/// The first vector with an element that is not finite.
fn place_of_others<T: Number>(values: &[T], dim: usize) -> Option<usize> {
    let has_others = |vector: &[T]| !vector.iter().fold(true, |all, x| all & x.to_f64().is_finite());
    values.par_chunks(dim.max(1)).position_first(has_others)
}

fn converted<T: Copy + Sync, U: Send>(values: Option<&Vec<T>>, convert: impl Fn(T) -> U + Sync) -> Vec<U> {
    values.map(|values| values.par_iter().map(|&x| convert(x)).collect()).unwrap_or_default()
}
