//! Finds and opens the members of npz archives.

use std::io::Error as IoError;
use std::path::{Path, PathBuf};

use npyz::npz::array_name_from_file_name;
use npyz::zip::{CompressionMethod, ZipArchive};

use super::inflate::Inflater;
use super::location::member_path;
use super::npy::Header;
use super::source::Source;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};

/// Deflate expands no byte to more bytes than this.
const LARGEST_RATIO: u64 = 1032;
/// The most members that a message names.
const NAMED: usize = 16;

/// An open npz archive.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    file: PositionedFile,
    zip: ZipArchive<PositionedFile>,
    /// Names of the arrays, without `.npy`, and their indices in the archive.
    members: Vec<(String, usize)>,
}

impl Archive {
    /// Opens the archive `path`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = PositionedFile::open(path).map_err(failed(path))?;
        let broken =
            |error: npyz::zip::result::ZipError| mismatch(path, "an npz (zip) archive", error.to_string());
        let mut zip = ZipArchive::new(file.clone()).map_err(broken)?;
        let mut members = Vec::new();
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(broken)?;
            if let Some(name) = array_name_from_file_name(entry.name()) {
                members.push((name.to_owned(), index));
            }
        }
        Ok(Self { path: path.into(), file, zip, members })
    }

    /// Whether the archive has a member `name`.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.members.iter().any(|(member, _)| member == name)
    }

    /// The path, bytes and header of the member `name`. If a name repeats, the last member counts.
    pub(super) fn member(&self, name: &str) -> Result<(PathBuf, Source, Header)> {
        match self.members.iter().rfind(|(member, _)| member == name) {
            Some((name, index)) => self.array(name, *index),
            None => Err(mismatch(&self.path, format!("a member {name}"), self.describe())),
        }
    }

    /// The only member whose header `fits`; `needed` says what that means.
    pub(super) fn only(
        &self,
        fits: impl Fn(&Header) -> bool,
        needed: &str,
    ) -> Result<(PathBuf, Source, Header)> {
        let arrays = self.members.iter().filter_map(|(name, index)| self.array(name, *index).ok());
        let mut fitting = arrays.filter(|(_, _, header)| fits(header));
        match (fitting.next(), fitting.next()) {
            (Some(array), None) => Ok(array),
            _ => {
                let needed = format!("one member that is {needed}, or FILE.npz:MEMBER to name one");
                Err(mismatch(&self.path, needed, self.describe()))
            }
        }
    }

    fn array(&self, name: &str, index: usize) -> Result<(PathBuf, Source, Header)> {
        let path = member_path(&self.path, name);
        let source = self.source(&path, index)?;
        let header = Header::read(&path, &source)?;
        Ok((path, source, header))
    }

    /// The bytes of a member, after checking its recorded sizes against the file's length.
    fn source(&self, path: &Path, index: usize) -> Result<Source> {
        let mut zip = self.zip.clone();
        let entry = zip.by_index_raw(index).map_err(IoError::other).map_err(failed(path))?;
        let mut flags = [0; 2];
        self.file.fill(entry.central_header_start() + 8, &mut flags).map_err(failed(path))?;
        if flags[0] & 1 == 1 {
            return Err(mismatch(path, "a member that is not encrypted", "an encrypted one"));
        }
        let (start, packed, length) = (entry.data_start(), entry.compressed_size(), entry.size());
        let method = entry.compression();
        drop(entry);
        if start.checked_add(packed).is_none_or(|end| end > self.file.length()) {
            let needed = format!("{packed} bytes of this member from byte {start} on");
            return Err(mismatch(path, needed, format!("an archive of {} bytes", self.file.length())));
        }
        match method {
            CompressionMethod::Stored if packed == length => {
                Ok(Source::Stretch { file: self.file.clone(), start, length })
            }
            CompressionMethod::Deflated if length / LARGEST_RATIO <= packed => {
                Ok(Source::Deflated(Inflater::new(zip, index, length)))
            }
            CompressionMethod::Stored | CompressionMethod::Deflated => {
                let found = format!("{packed} bytes {method} that should make {length} bytes");
                Err(mismatch(path, "a member that fits its recorded length", found))
            }
            _ => Err(mismatch(path, "a stored or deflated member", format!("compression {method}"))),
        }
    }

    /// The members with their dtypes and shapes, for messages.
    fn describe(&self) -> String {
        let mut texts: Vec<_> = self
            .members
            .iter()
            .take(NAMED)
            .map(|(name, index)| {
                let header = self.array(name, *index).map(|(_, _, header)| header.to_string());
                format!("{name} ({})", header.unwrap_or_else(|_| "unreadable".into()))
            })
            .collect();
        match self.members.len() {
            0 => return "no arrays".into(),
            count if count > NAMED => texts.push(format!("{} more", count - NAMED)),
            _ => {}
        }
        format!("members {}", texts.join(", "))
    }
}
