//! The headers of npy arrays, read with their element types, and written.

use std::path::Path;

use crate::error::Result;
pub(in crate::io) use crate::files::npy::MAGIC;
use crate::files::npy::{NpyHeader, PREFIX};
use crate::io::element_type::ElementType;
use crate::io::source::Source;

/// The data start at a multiple of this.
const ALIGNMENT: usize = 64;

/// What the header of an array says.
#[derive(Debug)]
pub(in crate::io) struct Header {
    /// The file's name of the element type, such as `<f4`.
    pub(in crate::io) dtype: String,
    /// The element type, and whether its bytes are big endian. `None` if it is no number.
    pub(in crate::io) element: Option<(ElementType, bool)>,
    /// Elements along each dimension.
    pub(in crate::io) shape: Vec<u64>,
    /// Whether the first index varies fastest.
    pub(in crate::io) fortran: bool,
    /// Bytes before the data.
    pub(in crate::io) length: u64,
}

impl Header {
    /// Reads the header at the start of `source`.
    pub(in crate::io) fn read(path: &Path, source: &Source) -> Result<Self> {
        let fill = |offset, buffer: &mut [u8]| source.fill(offset, buffer);
        let NpyHeader { dtype, shape, fortran, length } = NpyHeader::read(path, source.length(), fill)?;
        Ok(Self { element: ElementType::of_numpy(&dtype), dtype, shape, fortran, length })
    }
}

/// The header of an array in C order, `[rows, width]`.
pub(in crate::io) fn write_header(dtype: &str, shape: &[usize]) -> Vec<u8> {
    let shape: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The last byte is a newline.
    let padded = (PREFIX - 2 + text.len() + 1).next_multiple_of(ALIGNMENT) - (PREFIX - 2);
    text.push_str(&" ".repeat(padded - 1 - text.len()));
    text.push('\n');
    // One line of a few numbers is far below the limit of version 1.
    [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}
