//! Reads ids, distances and plain values from files.

use std::path::Path;

use super::element_type::ElementType;
use super::location::Location;
use super::npz::Archive;
use super::open::{Accepted, Format, array, open};
use super::table::Table;
use crate::error::Result;
use crate::files::mismatch;

const IDS: Accepted = Accepted {
    formats: &[
        ("npy", Format::Npy),
        ("npz", Format::Npz),
        ("ivecs", Format::RowHeaders(ElementType::I32)),
        ("ibin", Format::Header(ElementType::I32)),
        ("bin", Format::Truth(ElementType::I32)),
    ],
    elements: &[ElementType::I32, ElementType::I64, ElementType::U32, ElementType::U64],
    dimensions: 2,
    member: Some("ids"),
};

const DISTANCES: Accepted = Accepted {
    formats: &[("npz", Format::Npz), ("bin", Format::Truth(ElementType::F32))],
    elements: &[ElementType::F32],
    dimensions: 2,
    member: Some("distances"),
};

const VALUES: Accepted = Accepted {
    formats: &[("npy", Format::Npy), ("npz", Format::Npz)],
    elements: &[ElementType::F32],
    dimensions: 1,
    member: None,
};

/// Ids of neighbours, `[rows, width]`: one row per query, nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The ids, row after row. Negative ids are kept as they are in the file.
    pub values: Vec<i64>,
    /// ElementType of rows.
    pub rows: usize,
    /// Ids per row.
    pub width: usize,
}

/// Reads ids from `.npy`, `.npz` (the member `ids` unless the path names another), `.ivecs`, `.ibin` or `.bin` (which
/// also holds distances).
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read);
/// [`Error::File`](crate::Error::File) also for an id of 2^63 or above.
pub fn read_ids(path: impl AsRef<Path>) -> Result<Ids> {
    let table = open(path.as_ref(), &IDS)?;
    let (rows, width) = (table.rows, table.dim);
    let values = table.read(0..rows, |bytes, values| {
        match table.element {
            ElementType::I32 => {
                values.extend(bytes.as_chunks().0.iter().map(|id| i64::from(i32::from_le_bytes(*id))))
            }
            ElementType::U32 => {
                values.extend(bytes.as_chunks().0.iter().map(|id| i64::from(u32::from_le_bytes(*id))))
            }
            ElementType::I64 => values.extend(bytes.as_chunks().0.iter().map(|id| i64::from_le_bytes(*id))),
            ElementType::U64 => {
                for id in bytes.as_chunks().0.iter().map(|id| u64::from_le_bytes(*id)) {
                    let id = i64::try_from(id).map_err(|_| {
                        mismatch(
                            &table.path,
                            "ids below 2^63",
                            format!("{id} in row {}", values.len() / width),
                        )
                    })?;
                    values.push(id);
                }
            }
            ElementType::F32 | ElementType::F16 | ElementType::U8 | ElementType::I8 => {
                return Err(table.unaccepted(IDS.elements));
            }
        }
        Ok(())
    })?;
    Ok(Ids { values, rows, width })
}

/// Reads distances, `[rows, width]` f32, from the member `distances` of an npz or from a `.bin`. Returns them row after row,
/// and the width.
///
/// Returns `None` if the archive has no such member, and for all other endings: their formats hold no distances. A member
/// named in `path` (`FILE.npz:MEMBER`) is ignored.
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read).
pub fn read_distances(path: impl AsRef<Path>) -> Result<Option<(Vec<f32>, usize)>> {
    let location = Location::new(path.as_ref());
    if location.ending == "bin" {
        let table = open(path.as_ref(), &DISTANCES)?;
        return Ok(Some((f32s(&table)?, table.dim)));
    }
    if location.ending != "npz" {
        return Ok(None);
    }
    let archive = Archive::open(&location.file)?;
    if !archive.contains("distances") {
        return Ok(None);
    }
    let (path, source, header) = archive.member("distances")?;
    let table = array(&path, source, &header, &DISTANCES)?;
    Ok(Some((f32s(&table)?, table.dim)))
}

/// Reads a 1-D f32 array from `.npy` or `.npz` (the member that the path names, or the only 1-D f32 member).
///
/// # Errors
/// As [`VectorFile::open`](super::VectorFile::open) and [`read`](super::VectorFile::read).
pub fn read_values(path: impl AsRef<Path>) -> Result<Vec<f32>> {
    f32s(&open(path.as_ref(), &VALUES)?)
}

fn f32s(table: &Table) -> Result<Vec<f32>> {
    table.read(0..table.rows, |bytes, values| {
        values.extend(bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)));
        Ok(())
    })
}
