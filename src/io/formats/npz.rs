//! Finds and opens the members of npz archives.

use std::io::{Error as IoError, Result as IoResult};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder,
    ZipLocator,
};

use super::archive::{Archive, Array};
use super::inflate::Inflater;
use super::npy::Header;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};
use crate::io::location::member_path;
use crate::io::source::Source;

/// Deflate expands no byte to more bytes than this.
const LARGEST_RATIO: u64 = 1032;
/// The most arrays of an archive. A damaged one may claim as many as it has bytes.
const MOST_ARRAYS: usize = 1 << 16;

impl ReaderAt for PositionedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<usize> {
        self.read_some(offset, buffer)
    }
}

/// An open npz archive.
#[derive(Debug)]
pub(in crate::io) struct Npz {
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

impl Npz {
    /// Reads the directory of an archive.
    pub(in crate::io) fn open(path: &Path, file: PositionedFile) -> Result<Self> {
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
}

impl Archive for Npz {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Box<dyn DoubleEndedIterator<Item = &str> + '_> {
        Box::new(self.members.iter().map(|member| member.name.as_str()))
    }

    fn array(&self, index: usize) -> Result<Array> {
        let member = &self.members[index];
        let path = member_path(&self.path, &member.name);
        let source = self.source(&path, member)?;
        let header = Header::read(&path, &source)?;
        Ok(Array { path, source, header })
    }
}
