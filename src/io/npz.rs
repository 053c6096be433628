//! Finds and opens the members of npz archives.

use std::io::{Error as IoError, Result as IoResult};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder,
    ZipLocator,
};

use super::inflate::Inflater;
use super::location::member_path;
use super::npy::Header;
use super::source::Source;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};

/// Deflate expands no byte to more bytes than this.
const LARGEST_RATIO: u64 = 1032;
/// The most arrays of an archive. A damaged one may claim as many as it has bytes.
const MOST_ARRAYS: usize = 1 << 16;
/// The most members that a message names.
const NAMED: usize = 16;

impl ReaderAt for PositionedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<usize> {
        self.read_some(offset, buffer)
    }
}

/// An open npz archive.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    zip: Arc<ZipArchive<PositionedFile>>,
    members: Vec<Member>,
}

/// What the directory of an archive says about an array.
#[derive(Debug)]
struct Member {
    /// Without `.npy`.
    name: String,
    place: ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    is_encrypted: bool,
}

impl Archive {
    /// Opens the archive `path`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = PositionedFile::open(path).map_err(failed(path))?;
        let broken = |error: rawzip::Error| mismatch(path, "an npz (zip) archive", error.to_string());
        let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
        let length = file.length();
        let located = ZipLocator::new().locate_in_reader(file, &mut buffer, length);
        let zip = located.map_err(|(_, error)| broken(error))?;
        let mut members = Vec::new();
        let mut entries = zip.entries(&mut buffer);
        while let Some(entry) = entries.next_entry().map_err(broken)? {
            let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
            let Some(name) = name.strip_suffix(".npy") else { continue };
            if members.len() == MOST_ARRAYS {
                return Err(mismatch(path, format!("an archive of at most {MOST_ARRAYS} arrays"), "more"));
            }
            members.push(Member {
                name: name.to_owned(),
                place: entry.wayfinder(),
                method: entry.compression_method(),
                is_encrypted: entry.flags().is_encrypted(),
            });
        }
        Ok(Self { path: path.into(), zip: zip.into(), members })
    }

    /// Whether the archive has a member `name`.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }

    /// The path, bytes and header of the member `name`. If a name repeats, the last member counts.
    pub(super) fn member(&self, name: &str) -> Result<(PathBuf, Source, Header)> {
        match self.members.iter().rfind(|member| member.name == name) {
            Some(member) => self.array(member),
            None => Err(mismatch(&self.path, format!("a member {name}"), self.describe())),
        }
    }

    /// The only member whose header `fits`; `needed` says what that means.
    pub(super) fn only(
        &self,
        fits: impl Fn(&Header) -> bool,
        needed: &str,
    ) -> Result<(PathBuf, Source, Header)> {
        let arrays = self.members.iter().filter_map(|member| self.array(member).ok());
        let mut fitting = arrays.filter(|(_, _, header)| fits(header));
        match (fitting.next(), fitting.next()) {
            (Some(array), None) => Ok(array),
            _ => {
                let needed = format!("one member that is {needed}, or FILE.npz:MEMBER to name one");
                Err(mismatch(&self.path, needed, self.describe()))
            }
        }
    }

    fn array(&self, member: &Member) -> Result<(PathBuf, Source, Header)> {
        let path = member_path(&self.path, &member.name);
        let source = self.source(&path, member)?;
        let header = Header::read(&path, &source)?;
        Ok((path, source, header))
    }

    /// The bytes of a member, after checking its recorded sizes against the file's length.
    fn source(&self, path: &Path, member: &Member) -> Result<Source> {
        if member.is_encrypted {
            return Err(mismatch(path, "a member that is not encrypted", "an encrypted one"));
        }
        let entry = self.zip.get_entry(member.place).map_err(IoError::other).map_err(failed(path))?;
        let (start, end) = entry.compressed_data_range();
        let (packed, length) = (end.saturating_sub(start), member.place.uncompressed_size_hint());
        let file = self.zip.get_ref();
        if end > file.length() {
            let needed = format!("{packed} bytes of this member from byte {start} on");
            return Err(mismatch(path, needed, format!("an archive of {} bytes", file.length())));
        }
        match member.method {
            CompressionMethod::STORE if packed == length => {
                Ok(Source::Stretch { file: file.clone(), start, length })
            }
            CompressionMethod::DEFLATE if length / LARGEST_RATIO <= packed => {
                Ok(Source::Deflated(Inflater::new(self.zip.clone(), member.place)))
            }
            CompressionMethod::STORE | CompressionMethod::DEFLATE => {
                let found = format!("{packed} bytes that should make {length} bytes");
                Err(mismatch(path, "a member that fits its recorded length", found))
            }
            method => Err(mismatch(path, "a stored or deflated member", format!("compression {method}"))),
        }
    }

    /// The members with their dtypes and shapes, for messages.
    fn describe(&self) -> String {
        let mut texts: Vec<_> = self
            .members
            .iter()
            .take(NAMED)
            .map(|member| {
                let header = self.array(member).map(|(_, _, header)| header.to_string());
                format!("{} ({})", member.name, header.unwrap_or_else(|_| "unreadable".into()))
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
