//! Opens a table of any format of numbers in binary.

use std::path::Path;

use super::element_type::ElementType;
use super::formats::archive::{Archive, Array, member, only};
#[cfg(feature = "hdf5")]
use super::formats::hdf5::Hdf5;
use super::formats::npy::Header;
use super::formats::npz::Npz;
use super::formats::raw::{open_truth, open_with_header, open_with_row_headers};
use super::formats::tensors::Tensors;
use super::formats::text::Form;
use super::input::Input;
use super::source::Source;
use super::table::{Layout, Table};
use crate::error::Result;
use crate::files::mismatch;

/// The format of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    /// A numpy array.
    Npy,
    /// An archive of numpy arrays.
    Npz,
    /// A file of safetensors.
    Tensors,
    /// An HDF5 file.
    #[cfg(feature = "hdf5")]
    Hdf5,
    /// The fbin family.
    Header(ElementType),
    /// The fvecs family.
    RowHeaders(ElementType),
    /// True neighbours: ids, then distances, after one header. The element type says which of the two is read.
    Truth(ElementType),
    /// One row a line.
    Text(Form),
}

/// The files that a reader accepts.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The accepted extensions and their formats.
    pub(super) formats: &'static [(&'static str, Format)],
    /// Whether floats are accepted in an array.
    pub(super) floats: bool,
    /// The dimensions that an array must have, 1 or 2.
    pub(super) dimensions: usize,
    /// The member of an archive to read if the path names none. `None` stands for the only member that fits.
    pub(super) member: Option<&'static str>,
}

impl Accepted {
    /// Numpy arrays of one dimension: integers, or also floats.
    pub(super) const fn list(floats: bool) -> Self {
        Self { formats: &[("npy", Format::Npy), ("npz", Format::Npz)], floats, dimensions: 1, member: None }
    }

    /// The format that the extension of a file tells.
    pub(super) fn format(&self, input: &Input) -> Result<Format> {
        let ending = &input.location.ending;
        let format = self.formats.iter().find(|(accepted, _)| accepted == ending);
        format.map(|(_, format)| *format).ok_or_else(|| {
            let endings: Vec<_> = self.formats.iter().map(|(ending, _)| format!(".{ending}")).collect();
            let found = if ending.is_empty() { "none".into() } else { format!(".{ending}") };
            mismatch(&input.location.file, format!("a name that ends in {}", endings.join(", ")), found)
        })
    }

    fn numbers(&self) -> &'static str {
        if self.floats { "floats or integers" } else { "integers" }
    }

    /// Whether an array fits, and how well: floats before integers and bools last, so that an archive of vectors, ids and masks has one answer.
    fn rank(&self, header: &Header) -> Option<usize> {
        let (element, _) = header.element?;
        let is_column = self.dimensions == 1 && matches!(header.shape.as_slice(), [_, 1]);
        let fits =
            (header.shape.len() == self.dimensions || is_column) && (self.floats || element.is_integer());
        let rank = match element {
            ElementType::Bool => 2,
            _ => usize::from(self.floats && element.is_integer()),
        };
        fits.then_some(rank)
    }

    fn choose(&self, archive: &dyn Archive, name: Option<&str>) -> Result<Array> {
        match name.or(self.member) {
            Some(name) => member(archive, name),
            None => {
                let needed = format!("{}-D of {}", self.dimensions, self.numbers());
                only(archive, |header| self.rank(header), &needed)
            }
        }
    }
}

/// Opens the table in `input`, which may name a member of an archive.
pub(super) fn open(input: Input, accepted: &Accepted) -> Result<Table> {
    let format = accepted.format(&input)?;
    let Input { location, file } = input;
    let path = location.file.as_path();
    let name = location.member.as_deref();
    match format {
        Format::Header(element) => open_with_header(path, Source::file(file), element),
        Format::Truth(element) => open_truth(path, Source::file(file), element),
        Format::RowHeaders(element) => open_with_row_headers(path, Source::file(file), element),
        Format::Npy => {
            let source = Source::file(file);
            let header = Header::read(path, &source)?;
            table(Array { path: path.into(), source, header }, accepted)
        }
        Format::Npz => table(accepted.choose(&Npz::open(path, file)?, name)?, accepted),
        Format::Tensors => table(accepted.choose(&Tensors::open(path, file)?, name)?, accepted),
        #[cfg(feature = "hdf5")]
        Format::Hdf5 => {
            // ann-benchmarks calls the true ids so.
            let default = accepted.member.map(|name| if name == "ids" { "neighbors" } else { name });
            let name = name.or(default);
            table(accepted.choose(&Hdf5::open(path, file, name)?, name)?, accepted)
        }
        Format::Text(_) => Err(mismatch(path, "numbers in binary", "text")),
    }
}

/// Opens the member `name` of an npz archive. None if there is no such member.
pub(super) fn open_npz_member(input: Input, name: &str, accepted: &Accepted) -> Result<Option<Table>> {
    let archive = Npz::open(&input.location.file, input.file)?;
    match archive.names().any(|member| member == name) {
        true => table(member(&archive, name)?, accepted).map(Some),
        false => Ok(None),
    }
}

/// The table of an array. A 1-D array becomes rows of dim 1.
fn table(array: Array, accepted: &Accepted) -> Result<Table> {
    let Array { path, source, header } = array;
    let path: &Path = &path;
    let element = header.element.filter(|(element, _)| accepted.floats || element.is_integer());
    let Some((element, is_big_endian)) = element else {
        let needed = format!("{} of at most 8 bytes", accepted.numbers());
        return Err(mismatch(path, needed, format!("dtype {}", header.dtype)));
    };
    let (rows, dim) = match (accepted.dimensions, header.shape.as_slice()) {
        (1, &[rows] | &[rows, 1]) => (rows, 1),
        (2, &[rows, dim]) => (rows, dim),
        (dimensions, shape) => {
            let found = format!("{} (shape {shape:?})", shape.len());
            let plural = if dimensions == 1 { "" } else { "s" };
            return Err(mismatch(path, format!("an array of {dimensions} dimension{plural}"), found));
        }
    };
    let layout = Layout {
        is_big_endian,
        is_fortran: header.fortran && rows > 1 && dim > 1,
        ..Layout::plain(element, rows, dim, header.length)
    };
    Table::new(path, source, layout)
}
