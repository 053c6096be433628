//! `VectorIndex`: what every index does, as a trait.

use std::fmt::Debug;
use std::path::Path;

use crate::engine::{SearchResult, Vectors};
use crate::error::Result;
use crate::metric::Metric;
use crate::options::{AddOptions, SearchOptions};
use crate::usage::Memory;

/// Keeps other crates from implementing [`VectorIndex`], so that it can get more methods.
pub trait Sealed {}

/// What [`Flat`](crate::Flat), [`Ivf`](crate::Ivf) and [`Index`](crate::Index) do alike, for functions and structs that take any of them,
/// also as `&dyn VectorIndex` or `Box<dyn VectorIndex>`.
///
/// The types have these methods themselves, with documents that tell more, beside others and forms that do not block. Vectors are anything
/// that becomes [`Vectors`]: here with `into()`, because an object cannot have generic methods. Other crates cannot implement the trait.
///
/// ```
/// use nearfield::{AddOptions, Device, Flat, Ivf, MatrixView, Metric, Result, SearchOptions, VectorIndex};
///
/// /// Adds rows that have no near duplicate in the index.
/// fn add_new(index: &mut impl VectorIndex, rows: MatrixView<'_, f32>, radius: f32) -> Result<usize> {
///     let near = index.search_with(rows.into(), &SearchOptions::new(1).radius(radius))?.neighbors;
///     let new: Vec<usize> = (0..rows.rows()).filter(|&row| near.row(row).is_empty()).collect();
///     for &row in &new {
///         index.add_with(rows.slice(row..row + 1).into(), &AddOptions::new())?;
///     }
///     Ok(new.len())
/// }
///
/// let values: Vec<f32> = (0..200).map(|i| i as f32).collect();
/// let rows = MatrixView::new(&values, 2)?;
/// let mut flat = Flat::builder(&Device::host(), Metric::L2, 2).build()?;
/// let mut ivf = Ivf::builder(&Device::host(), Metric::L2, 2).lists(3).train(rows)?;
/// assert_eq!((add_new(&mut flat, rows, 0.5)?, add_new(&mut ivf, rows, 0.5)?), (100, 100));
/// let indexes: [&dyn VectorIndex; 2] = [&flat, &ivf];
/// assert!(indexes.iter().all(|index| index.len() == 100 && index.contains(99)));
/// # Ok::<(), nearfield::Error>(())
/// ```
pub trait VectorIndex: Debug + Send + Sync + Sealed {
    /// The metric.
    fn metric(&self) -> Metric;

    /// Elements per row.
    fn dim(&self) -> usize;

    /// How many rows there are.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds rows, `[rows, dim]`, under ids of the caller's or their insertion numbers.
    ///
    /// # Errors
    /// As [`Flat::add_with`](crate::Flat::add_with). The index is then as it was.
    fn add_with(&mut self, rows: Vectors<'_>, options: &AddOptions<'_>) -> Result<()>;

    /// Replaces the rows with these ids by others, `[ids, dim]`: all of them or, after an error, none.
    ///
    /// # Errors
    /// As [`Flat::update`](crate::Flat::update).
    fn update(&mut self, ids: &[u64], rows: Vectors<'_>) -> Result<()>;

    /// Removes the rows with these ids: all of them or, after an error, none. An id that is given twice is removed once.
    ///
    /// # Errors
    /// As [`Flat::remove`](crate::Flat::remove).
    fn remove(&mut self, ids: &[u64]) -> Result<()>;

    /// Finds the k nearest rows of each query, or all nearer than a radius: nearest first, ties by the smaller id.
    ///
    /// # Errors
    /// As [`Flat::search_with`](crate::Flat::search_with).
    fn search_with(&self, queries: Vectors<'_>, options: &SearchOptions<'_>) -> Result<SearchResult>;

    /// The rows with these ids, `[ids, dim]`, in the order of the ids.
    ///
    /// # Errors
    /// As [`Flat::get`](crate::Flat::get).
    fn get(&self, ids: &[u64]) -> Result<Vec<f32>>;

    /// Whether a row has this id.
    fn contains(&self, id: u64) -> bool;

    /// The ids of all rows, ascending.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn ids(&self) -> Result<Vec<u64>>;

    /// The memory that the index takes, by part and place.
    fn memory(&self) -> Memory;

    /// Saves the index to one file, whole or not at all.
    ///
    /// # Errors
    /// As [`Flat::save`](crate::Flat::save).
    fn save(&self, path: &Path) -> Result<()>;
}

/// Implements [`VectorIndex`] by the methods of the same names.
macro_rules! vector_index {
    ($Index:ident) => {
        impl $crate::index::vector_index::Sealed for $Index {}

        impl $crate::index::vector_index::VectorIndex for $Index {
            fn metric(&self) -> Metric {
                Self::metric(self)
            }

            fn dim(&self) -> usize {
                Self::dim(self)
            }

            fn len(&self) -> usize {
                Self::len(self)
            }

            fn add_with(&mut self, rows: $crate::Vectors<'_>, options: &AddOptions<'_>) -> Result<()> {
                Self::add_with(self, rows, options)
            }

            fn update(&mut self, ids: &[u64], rows: $crate::Vectors<'_>) -> Result<()> {
                Self::update(self, ids, rows)
            }

            fn remove(&mut self, ids: &[u64]) -> Result<()> {
                Self::remove(self, ids)
            }

            fn search_with(
                &self,
                queries: $crate::Vectors<'_>,
                options: &SearchOptions<'_>,
            ) -> Result<SearchResult> {
                Self::search_with(self, queries, options)
            }

            fn get(&self, ids: &[u64]) -> Result<Vec<f32>> {
                Self::get(self, ids)
            }

            fn contains(&self, id: u64) -> bool {
                Self::contains(self, id)
            }

            fn ids(&self) -> Result<Vec<u64>> {
                Self::ids(self)
            }

            fn memory(&self) -> $crate::Memory {
                Self::memory(self)
            }

            fn save(&self, path: &Path) -> Result<()> {
                Self::save(self, path)
            }
        }
    };
}
pub(crate) use vector_index;
