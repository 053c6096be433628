//! The bytes that a reader gets: of a file, of memory, or of the standard input.

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use super::formats::npy;
use super::location::Location;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};

/// The most bytes that are read from the standard input, because they are all kept in memory.
const MOST_BYTES: u64 = 2 << 30;
/// The name of the standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// Bytes with a name that tells their format.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) location: Location,
    pub(super) file: PositionedFile,
}

impl Input {
    /// Opens a file, or reads the standard input if the path is `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::of_standard_input();
        }
        let location = Location::new(path);
        let is_special = |about: fs::Metadata| !about.is_file() && !about.is_dir();
        if fs::metadata(&location.file).is_ok_and(is_special) {
            let needed = "a regular file, or - as the path and the pipe as standard input";
            return Err(mismatch(&location.file, needed, "a pipe or a device"));
        }
        let file = PositionedFile::open(&location.file).map_err(failed(&location.file))?;
        Ok(Self { location, file })
    }

    fn of_standard_input() -> Result<Self> {
        let path = Path::new(STANDARD_INPUT);
        let mut bytes = vec![];
        stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed(path))?;
        if bytes.len() as u64 > MOST_BYTES {
            let needed = format!("at most {MOST_BYTES} bytes; larger ones have to be in a file");
            return Err(mismatch(path, needed, "more"));
        }
        let ending = recognised(&bytes).ok_or_else(|| {
            let found = match bytes.len() {
                0 => "nothing: it is empty, or was read before".into(),
                _ => format!("bytes that start with '{}'", bytes[..bytes.len().min(16)].escape_ascii()),
            };
            mismatch(path, "npy, npz, safetensors, HDF5, JSON lines or CSV", found)
        })?;
        let location = Location { file: path.into(), member: None, ending: ending.into() };
        Ok(Self { location, file: PositionedFile::of_bytes(bytes.into()) })
    }
}

/// The extension of the format that bytes are in. The raw formats have nothing to recognise them by.
fn recognised(bytes: &[u8]) -> Option<&'static str> {
    let first_line = bytes.split(|byte| *byte == b'\n').next()?;
    let text = str::from_utf8(first_line).ok().map(|text| text.trim_start_matches('\u{feff}').trim());
    match bytes {
        [] => None,
        _ if bytes.starts_with(npy::MAGIC) => Some("npy"),
        [b'P', b'K', 3 | 5, ..] => Some("npz"),
        _ if bytes.starts_with(b"\x89HDF\r\n\x1a\n") => Some("hdf5"),
        // The length of a header, and the header in JSON.
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => Some("safetensors"),
        _ => match text? {
            text if text.starts_with(['[', '{']) => Some("jsonl"),
            text if !text.contains(|letter: char| letter.is_control() && letter != '\t') => Some("csv"),
            _ => None,
        },
    }
}
