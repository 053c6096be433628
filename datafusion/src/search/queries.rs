//! The queries of a search.

use std::sync::OnceLock;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::vectors::Vectors;

/// Vectors that neighbours are looked for, all of one length.
#[derive(Debug, Clone)]
pub(crate) struct Queries {
    dim: usize,
    /// `[queries, dim]`, as they were given.
    values: Vec<f64>,
    /// The number of each in the list or table that it comes from, where some are NULL.
    numbers: Vec<u64>,
    /// The values in f32, once they were asked for.
    in_f32: OnceLock<Vec<f32>>,
}

impl PartialEq for Queries {
    fn eq(&self, other: &Self) -> bool {
        (self.dim, &self.values, &self.numbers) == (other.dim, &other.values, &other.numbers)
    }
}

impl Queries {
    /// Takes the vectors of a column that are not NULL. `argument` names it in errors.
    pub(crate) fn of_column(column: &ArrayRef, argument: &str) -> Result<Self> {
        let vectors = Vectors::new(column)?;
        let mut queries = Self { dim: 0, values: vec![], numbers: vec![], in_f32: OnceLock::new() };
        for row in 0..vectors.len() {
            let Some(values) = vectors.to_f64(row) else { continue };
            queries.push(values, row as u64, argument)?;
        }
        Ok(queries)
    }

    fn push(&mut self, values: Vec<f64>, number: u64, argument: &str) -> Result<()> {
        if values.is_empty() {
            return exec_err!("{argument}: needed vectors with elements, vector {number} has none");
        }
        if self.numbers.is_empty() {
            self.dim = values.len();
        }
        if values.len() != self.dim {
            return exec_err!(
                "{argument}: needed vectors of {} elements as the first has, vector {number} has {}",
                self.dim,
                values.len()
            );
        }
        if values.iter().any(|value| !value.is_finite()) {
            return exec_err!("{argument}: needed finite elements, vector {number} has others");
        }
        self.values.extend(values);
        self.numbers.push(number);
        Ok(())
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
        Ok(Self { dim, values, numbers, in_f32: OnceLock::new() })
    }

    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// All elements in f32.
    pub(crate) fn to_f32(&self) -> &[f32] {
        self.in_f32.get_or_init(|| self.values.iter().map(|&x| x as f32).collect())
    }

    pub(crate) fn query(&self, place: usize) -> &[f64] {
        &self.values[place * self.dim..][..self.dim]
    }

    pub(crate) fn bytes(&self) -> usize {
        12 * self.values.len() + 8 * self.numbers.len()
    }
}
