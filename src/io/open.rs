//! Opens a table of any format by the file's extension.

use std::path::Path;

use super::element_type::{ElementType, list};
use super::location::Location;
use super::npy::Header;
use super::npz::Archive;
use super::raw::{open_truth, open_with_header, open_with_row_headers};
use super::source::Source;
use super::table::{Layout, Table};
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};

/// The format of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    /// A numpy array.
    Npy,
    /// An archive of numpy arrays.
    Npz,
    /// The fbin family.
    Header(ElementType),
    /// The fvecs family.
    RowHeaders(ElementType),
    /// True neighbours: ids, then distances, after one header. The element type says which of the two is read.
    Truth(ElementType),
}

/// The files that a reader accepts.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The accepted extensions and their formats.
    pub(super) formats: &'static [(&'static str, Format)],
    /// The element types accepted in a numpy array.
    pub(super) elements: &'static [ElementType],
    /// The dimensions that a numpy array must have, 1 or 2.
    pub(super) dimensions: usize,
    /// The member of an archive to read if the path names none. `None` stands for the only member that fits.
    pub(super) member: Option<&'static str>,
}

impl Accepted {
    fn describe(&self) -> String {
        format!("{}-D of dtype {}", self.dimensions, list(self.elements))
    }

    fn element(&self, header: &Header) -> Option<ElementType> {
        self.elements.iter().copied().find(|element| element.dtype() == header.dtype)
    }
}

/// Opens `path`, which may name a member of an archive.
pub(super) fn open(path: &Path, accepted: &Accepted) -> Result<Table> {
    let location = Location::new(path);
    let format = accepted.formats.iter().find(|(ending, _)| *ending == location.ending);
    let Some((_, format)) = format else {
        let endings: Vec<_> = accepted.formats.iter().map(|(ending, _)| format!(".{ending}")).collect();
        let found = if location.ending.is_empty() { "none".into() } else { format!(".{}", location.ending) };
        return Err(mismatch(path, format!("a name that ends in {}", endings.join(", ")), found));
    };
    let file = &location.file;
    let source = || PositionedFile::open(file).map(Source::file).map_err(failed(file));
    match format {
        Format::Header(element) => open_with_header(file, source()?, *element),
        Format::Truth(element) => open_truth(file, source()?, *element),
        Format::RowHeaders(element) => open_with_row_headers(file, source()?, *element),
        Format::Npy => {
            let source = source()?;
            let header = Header::read(file, &source)?;
            array(file, source, &header, accepted)
        }
        Format::Npz => {
            let archive = Archive::open(file)?;
            let (path, source, header) = match location.member.as_deref().or(accepted.member) {
                Some(name) => archive.member(name)?,
                None => {
                    let fits = |header: &Header| {
                        accepted.element(header).is_some() && header.shape.len() == accepted.dimensions
                    };
                    archive.only(fits, &accepted.describe())?
                }
            };
            array(&path, source, &header, accepted)
        }
    }
}

/// The table of a numpy array. A 1-D array becomes rows of dim 1.
pub(super) fn array(path: &Path, source: Source, header: &Header, accepted: &Accepted) -> Result<Table> {
    let Some(element) = accepted.element(header) else {
        let order = if header.dtype.starts_with('>') { " (big endian)" } else { "" };
        let needed = format!("dtype {}", list(accepted.elements));
        return Err(mismatch(path, needed, format!("dtype {}{order}", header.dtype)));
    };
    let (rows, dim) = match (accepted.dimensions, header.shape.as_slice()) {
        (1, &[rows]) => (rows, 1),
        (2, &[rows, dim]) => (rows, dim),
        (dimensions, shape) => {
            let found = format!("{} (shape {shape:?})", shape.len());
            return Err(mismatch(path, format!("an array of {dimensions} dimensions"), found));
        }
    };
    if header.fortran && accepted.dimensions > 1 {
        return Err(mismatch(path, "C order (fortran_order False)", "Fortran order"));
    }
    Table::new(path, source, Layout { element, rows, dim, start: header.length, row_header: 0 })
}
