//! Reads ids of rows, and choices of rows, from one-dimensional numpy arrays.

use std::path::Path;

use super::convert::to_i64;
use super::formats::npy::Header;
use super::input::Input;
use super::open::{Accepted, open};
use super::source::Source;
use super::table::reserve;
use crate::error::Result;
use crate::files::{failed, mismatch};
use crate::options::filter::Filter;

/// A choice of rows that a file holds.
///
/// ```no_run
/// use nearfield::{Device, Index, MatrixView, SearchOptions, io};
/// let index = Index::load(&Device::best()?, "index.nf")?;
/// let allowed = io::read_selection("allowed.npy")?;
/// let options = SearchOptions::new(10).filter(allowed.filter());
/// let found = index.search_with(MatrixView::new(&[0.0f32; 384], 384)?, &options)?;
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selection {
    /// The ids of the chosen rows, in any order.
    Ids(Vec<u64>),
    /// One bit for each id, as [`Filter::bits`] takes them.
    Mask {
        /// Bit `id % 64` of word `id / 64`, counted from the lowest.
        words: Vec<u64>,
        /// How many ids the mask covers.
        len: usize,
    },
}

impl Selection {
    /// The filter of a search that returns only these rows.
    pub fn filter(&self) -> Filter<'_> {
        match self {
            Self::Ids(ids) => Filter::ids(ids),
            Self::Mask { words, .. } => Filter::bits(words),
        }
    }
}

/// Reads a choice of rows from `.npy`: a 1-D array of ids (whole numbers of any type), or of bool, whose element i is for id i. Ids may
/// also be in an `.npz`.
///
/// # Errors
/// [`Error::File`](crate::Error::File) for another array, a negative id or a damaged file; [`Error::Io`](crate::Error::Io) when it cannot
/// be read.
pub fn read_selection(path: impl AsRef<Path>) -> Result<Selection> {
    let input = Input::open(path.as_ref())?;
    if let Some(mask) = read_mask(&input)? {
        return Ok(mask);
    }
    let ids = row_ids(input)?;
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    // A mask in another type would otherwise choose rows 0 and 1.
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let found = format!("id {} twice", twice[0]);
        return Err(mismatch(path.as_ref(), "ids once each, or a mask of dtype bool", found));
    }
    Ok(Selection::Ids(ids))
}

/// Reads ids of rows, one a row, from `.npy` or `.npz`: a 1-D array of whole numbers of any type.
///
/// # Errors
/// As [`read_selection`].
pub fn read_row_ids(path: impl AsRef<Path>) -> Result<Vec<u64>> {
    row_ids(Input::open(path.as_ref())?)
}

fn row_ids(input: Input) -> Result<Vec<u64>> {
    let table = open(input, &Accepted::list(false))?;
    let ids = table.read(0..table.rows, |bytes, values| to_i64(table.element(), bytes, values))?;
    let id = |(place, id): (usize, i64)| {
        u64::try_from(id).map_err(|_| mismatch(&table.path, "ids of 0 or more", format!("{id} at {place}")))
    };
    ids.into_iter().enumerate().map(id).collect()
}

/// Reads a 1-D array of bool; none for other files.
fn read_mask(input: &Input) -> Result<Option<Selection>> {
    let path = &input.location.file;
    if input.location.ending != "npy" {
        return Ok(None);
    }
    let source = Source::file(input.file.clone());
    let header = Header::read(path, &source)?;
    let (true, &[count]) = (header.dtype.contains("b1"), header.shape.as_slice()) else { return Ok(None) };
    let (needed, found) = (header.length.checked_add(count), source.length());
    if needed != Some(found) {
        return Err(mismatch(
            path,
            format!("{count} bools after {} bytes", header.length),
            format!("{found} bytes"),
        ));
    }
    let mut flags = reserve(path, count as usize)?;
    flags.resize(count as usize, 0u8);
    source.fill(header.length, &mut flags).map_err(failed(path))?;
    let word = |flags: &[u8]| flags.iter().rev().fold(0, |word, &flag| word << 1 | u64::from(flag != 0));
    Ok(Some(Selection::Mask { words: flags.chunks(64).map(word).collect(), len: flags.len() }))
}
