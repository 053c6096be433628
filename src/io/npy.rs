//! Reads the headers of npy arrays.

use std::path::Path;

use npyz::{NpyHeader, Order};

use super::guard::check_header_text;
use super::source::Source;
use crate::error::Result;
use crate::files::{failed, mismatch};

/// The first bytes of every npy array.
const MAGIC: &[u8] = b"\x93NUMPY";
/// The most bytes before a header's text: magic, version, length of the text.
const PREFIX: usize = 12;
/// The most bytes of a header's text: numpy's own limit.
const LONGEST_TEXT: u64 = 10_000;

/// The content of an npy header.
#[derive(Debug)]
pub(super) struct Header {
    /// numpy's name of the element type, such as `<f4`.
    pub(super) dtype: String,
    /// Elements along each dimension. Their product fits 64 bits.
    pub(super) shape: Vec<u64>,
    /// Whether the first index varies fastest.
    pub(super) fortran: bool,
    /// Bytes before the data.
    pub(super) length: u64,
}

impl Header {
    /// Reads the header at the start of `source`.
    pub(super) fn read(path: &Path, source: &Source) -> Result<Self> {
        let mut prefix = [0; PREFIX];
        let present = prefix.len().min(usize::try_from(source.length()).unwrap_or(PREFIX));
        source.fill(0, &mut prefix[..present]).map_err(failed(path))?;
        if present < PREFIX || !prefix.starts_with(MAGIC) {
            let found =
                format!("{} bytes that start with '{}'", source.length(), prefix[..present].escape_ascii());
            return Err(mismatch(
                path,
                format!("an npy array, which starts with '{}'", MAGIC.escape_ascii()),
                found,
            ));
        }
        let [.., major, _, a, b, c, d] = prefix;
        let (start, text) = match major {
            1 => (10, u64::from(u16::from_le_bytes([a, b]))),
            2 | 3 => (12, u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => return Err(mismatch(path, "npy version 1, 2 or 3", format!("version {major}"))),
        };
        if text > LONGEST_TEXT {
            return Err(mismatch(
                path,
                format!("an npy header of at most {LONGEST_TEXT} bytes"),
                format!("{text} bytes"),
            ));
        }
        let length = start + text;
        if length > source.length() {
            return Err(mismatch(
                path,
                format!("an npy header of {length} bytes"),
                format!("{} bytes", source.length()),
            ));
        }
        let mut bytes = vec![0; length as usize];
        source.fill(0, &mut bytes).map_err(failed(path))?;
        check_header_text(&bytes[start as usize..])
            .map_err(|found| mismatch(path, "an npy header", found))?;
        let header = NpyHeader::from_reader(bytes.as_slice())
            .map_err(|error| mismatch(path, "an npy header", error.to_string()))?;
        Ok(Self {
            dtype: header.dtype().descr().trim_matches('\'').to_owned(),
            shape: header.shape().to_vec(),
            fortran: header.order() == Order::Fortran,
            length,
        })
    }
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}
