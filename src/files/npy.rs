//! Reads the headers of npy arrays: a magic, a version, the length of a text, and the text, a dict of Python.

use std::io;
use std::path::Path;

use crate::error::Result;
use crate::files::message::{failed, mismatch};

/// The first bytes of every npy array.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// The most bytes before a header's text: magic, version, length of the text.
pub(crate) const PREFIX: usize = 12;
/// The most bytes of a header's text: numpy's own limit.
const LONGEST_TEXT: u64 = 10_000;

/// What the header of an array says.
#[derive(Debug)]
pub(crate) struct NpyHeader {
    /// The file's name of the element type, such as `<f4`.
    pub(crate) dtype: String,
    /// Elements along each dimension.
    pub(crate) shape: Vec<u64>,
    /// Whether the first index varies fastest.
    pub(crate) fortran: bool,
    /// Bytes before the data.
    pub(crate) length: u64,
}

impl NpyHeader {
    /// Reads the header at the start of a source of this many bytes; `fill` reads those from an offset on.
    pub(crate) fn read(
        path: &Path,
        available: u64,
        fill: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<Self> {
        let mut prefix = [0; PREFIX];
        let present = prefix.len().min(usize::try_from(available).unwrap_or(PREFIX));
        fill(0, &mut prefix[..present]).map_err(failed(path))?;
        if present < PREFIX || !prefix.starts_with(MAGIC) {
            let found = format!("{} bytes that start with '{}'", available, prefix[..present].escape_ascii());
            return Err(mismatch(
                path,
                format!("an npy array, which starts with '{}'", MAGIC.escape_ascii()),
                found,
            ));
        }
        let [.., major, _, a, b, c, d] = prefix;
        let (start, text) = match major {
            1 => (PREFIX - 2, u64::from(u16::from_le_bytes([a, b]))),
            2 | 3 => (PREFIX, u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => return Err(mismatch(path, "npy version 1, 2 or 3", format!("version {major}"))),
        };
        if text > LONGEST_TEXT {
            return Err(mismatch(
                path,
                format!("an npy header of at most {LONGEST_TEXT} bytes"),
                format!("{text} bytes"),
            ));
        }
        let length = start as u64 + text;
        if length > available.max(PREFIX as u64) {
            return Err(mismatch(
                path,
                format!("an npy header of {length} bytes"),
                format!("{} bytes", available),
            ));
        }
        let mut bytes = prefix[start..].to_vec();
        bytes.resize((text as usize).max(bytes.len()), 0);
        // What lies behind the prefix alone: a deflated member would be decoded again from its start.
        fill(PREFIX as u64, &mut bytes[PREFIX - start..]).map_err(failed(path))?;
        let text = str::from_utf8(&bytes[..text as usize]).ok();
        let found = || match text {
            Some(text) => format!("{:.200}", text.trim()),
            None => "a text that is not UTF-8".into(),
        };
        let header = text.and_then(|text| Text(text).header(length));
        header.ok_or_else(|| mismatch(path, "an npy header with descr, fortran_order and shape", found()))
    }
}

/// The part of a header's text that was not read yet.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Reads the dict, whose keys come in any order. None if it has another form.
    fn header(mut self, length: u64) -> Option<NpyHeader> {
        let (mut dtype, mut fortran, mut shape) = (None, None, None);
        self.take("{")?;
        while self.take("}").is_none() {
            let key = self.quoted()?;
            self.take(":")?;
            match key {
                "descr" => dtype = Some(self.quoted()?.to_owned()),
                "fortran_order" => {
                    fortran = Some(self.take("True").is_some() || self.take("False").map(|()| false)?)
                }
                "shape" => shape = Some(self.numbers()?),
                _ => return None,
            }
            if self.take(",").is_none() && !self.0.trim_start().starts_with('}') {
                return None;
            }
        }
        self.0.trim().is_empty().then_some(())?;
        Some(NpyHeader { dtype: dtype?, fortran: fortran?, shape: shape?, length })
    }

    /// A tuple of numbers.
    fn numbers(&mut self) -> Option<Vec<u64>> {
        let mut numbers = vec![];
        self.take("(")?;
        while self.take(")").is_none() {
            let text = self.0.trim_start();
            let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            numbers.push(text[..digits].parse().ok()?);
            self.0 = &text[digits..];
            // Python 2 wrote long numbers this way.
            self.take("L");
            if self.take(",").is_none() && !self.0.trim_start().starts_with(')') {
                return None;
            }
        }
        Some(numbers)
    }

    /// A string without escapes.
    fn quoted(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        (!string.contains('\\')).then_some(string)
    }

    /// Goes past `word`, if it comes next.
    fn take(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(word)?;
        Some(())
    }
}
