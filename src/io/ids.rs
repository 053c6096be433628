//! Reads ids, distances and plain values from files.

use std::path::Path;

use super::convert::{to_f32, to_i64};
use super::element_type::ElementType;
use super::input::Input;
use super::open::{Accepted, Format, open, open_npz_member};
use super::table::Table;
use crate::error::Result;

const IDS: Accepted = Accepted {
    formats: &[
        ("npy", Format::Npy),
        ("npz", Format::Npz),
        #[cfg(feature = "hdf5")]
        ("hdf5", Format::Hdf5),
        #[cfg(feature = "hdf5")]
        ("h5", Format::Hdf5),
        ("ivecs", Format::RowHeaders(ElementType::I32)),
        ("ibin", Format::Header(ElementType::I32)),
        ("bin", Format::Truth(ElementType::I32)),
    ],
    floats: false,
    dimensions: 2,
    member: Some("ids"),
};

const DISTANCES: Accepted = Accepted {
    formats: &[
        ("npz", Format::Npz),
        #[cfg(feature = "hdf5")]
        ("hdf5", Format::Hdf5),
        #[cfg(feature = "hdf5")]
        ("h5", Format::Hdf5),
        ("bin", Format::Truth(ElementType::F32)),
    ],
    floats: true,
    dimensions: 2,
    member: Some("distances"),
};

/// Ids of neighbours, `[rows, width]`: one row per query, nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The ids, row after row. Negative ids are kept as they are in the file.
    pub values: Vec<i64>,
    /// Number of rows.
    pub rows: usize,
    /// Ids per row.
    pub width: usize,
}

/// Reads ids of any integer type from `.npy`, `.npz` (the member `ids` unless the path names another), `.hdf5` (the dataset
/// `neighbors`), `.ivecs`, `.ibin` or `.bin` (which also holds distances).
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read);
/// [`Error::File`](crate::Error::File) also for an id of 2^63 or above.
pub fn read_ids(path: impl AsRef<Path>) -> Result<Ids> {
    let table = open(Input::open(path.as_ref())?, &IDS)?;
    let (rows, width) = (table.rows, table.dim);
    let values = table.read(0..rows, |bytes, values| to_i64(table.element(), bytes, values))?;
    Ok(Ids { values, rows, width })
}

/// Reads distances, `[rows, width]`, from the member `distances` of an npz or HDF5 file or from a `.bin`. Returns them row after row,
/// and the width.
///
/// Returns `None` if the npz archive has no such member, and for all other endings: their formats hold no distances. A member
/// named in `path` (`FILE.npz:MEMBER`) is ignored.
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read).
pub fn read_distances(path: impl AsRef<Path>) -> Result<Option<(Vec<f32>, usize)>> {
    let mut input = Input::open(path.as_ref())?;
    input.location.member = None;
    let table = match input.location.ending.as_str() {
        "bin" => Some(open(input, &DISTANCES)?),
        #[cfg(feature = "hdf5")]
        "hdf5" | "h5" => Some(open(input, &DISTANCES)?),
        "npz" => open_npz_member(input, "distances", &DISTANCES)?,
        _ => None,
    };
    table.map(|table| Ok((f32s(&table)?, table.dim))).transpose()
}

/// Reads a 1-D array of numbers from `.npy` or `.npz` (the member that the path names, or the only one that is 1-D), converted
/// to f32 like vectors.
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read).
pub fn read_values(path: impl AsRef<Path>) -> Result<Vec<f32>> {
    f32s(&open(Input::open(path.as_ref())?, &Accepted::list(true))?)
}

fn f32s(table: &Table) -> Result<Vec<f32>> {
    table.read(0..table.rows, |bytes, values| to_f32(table.element(), bytes, values))
}
