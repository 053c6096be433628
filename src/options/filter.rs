//! `Filter`: restricts a search to some rows.

use std::collections::HashSet;
use std::fmt;

/// The rows that a search may return, selected by id. A filter borrows its ids and is free to create, so one set of ids can
/// serve many searches. Each search turns it into one bit per row.
///
/// ```no_run
/// use nearfield::{Device, Flat, MatrixView, Metric, SearchOptions};
/// let device = Device::best()?;
/// let mut index = Flat::builder(&device, Metric::L2, 1).build()?;
/// index.add(MatrixView::new(&[0.0f32, 1.0, 2.0, 3.0], 1)?)?;
/// let even = |id: u64| id % 2 == 0;
/// let options = SearchOptions::new(3).filter(&even); // or Filter::by(&even), or &[0, 2], or a set of ids
/// let found = index.search_with(MatrixView::new(&[3.0f32], 1)?, &options)?.neighbors;
/// let ids: Vec<u64> = found.row(0).iter().map(|hit| hit.id).collect();
/// assert_eq!(ids, [2, 0]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Filter<'a> {
    pub(crate) kind: Kind<'a>,
}

/// The kinds of filters.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    Ids(&'a [u64]),
    Bits(&'a [u64]),
    Set(&'a HashSet<u64>),
    By(&'a (dyn Fn(u64) -> bool + Send + Sync)),
}

impl<'a> From<&'a [u64]> for Filter<'a> {
    fn from(ids: &'a [u64]) -> Self {
        Self::ids(ids)
    }
}

impl<'a, const N: usize> From<&'a [u64; N]> for Filter<'a> {
    fn from(ids: &'a [u64; N]) -> Self {
        Self::ids(ids)
    }
}

impl<'a> From<&'a Vec<u64>> for Filter<'a> {
    fn from(ids: &'a Vec<u64>) -> Self {
        Self::ids(ids)
    }
}

impl<'a> From<&'a HashSet<u64>> for Filter<'a> {
    fn from(ids: &'a HashSet<u64>) -> Self {
        Self::set(ids)
    }
}

impl<'a, F: Fn(u64) -> bool + Send + Sync> From<&'a F> for Filter<'a> {
    fn from(is_allowed: &'a F) -> Self {
        Self::by(is_allowed)
    }
}

impl<'a> Filter<'a> {
    /// Allows the rows with these ids, given in any order. Ignores ids that no row has.
    pub fn ids(ids: &'a [u64]) -> Self {
        Self { kind: Kind::Ids(ids) }
    }

    /// Allows the rows with the ids of a set. Ignores ids that no row has.
    pub fn set(ids: &'a HashSet<u64>) -> Self {
        Self { kind: Kind::Set(ids) }
    }

    /// Allows the rows whose bit is set: bit `id % 64` of word `id / 64`, counted from the lowest. Missing bits are not set.
    ///
    /// This is the fastest filter if ids are insertion numbers and no row was ever moved into the slot of a removed one: the
    /// words are then copied as they are.
    pub fn bits(words: &'a [u64]) -> Self {
        Self { kind: Kind::Bits(words) }
    }

    /// Allows the rows for whose id the function returns true. Each search calls it once per row before it starts.
    pub fn by(is_allowed: &'a (impl Fn(u64) -> bool + Send + Sync)) -> Self {
        Self { kind: Kind::By(is_allowed) }
    }
}

impl fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Ids(ids) => write!(f, "Filter of {} ids", ids.len()),
            Kind::Set(ids) => write!(f, "Filter of {} ids", ids.len()),
            Kind::Bits(words) => write!(f, "Filter of {} bits", words.len() * 64),
            Kind::By(_) => write!(f, "Filter by a function"),
        }
    }
}
