//! Files in the address space of the process: the system reads what is used, and drops what it needs the memory for.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;

use crate::error::Result;
use crate::files::message::{failed, mismatch};
use crate::files::positioned::open_regular;

/// Bytes that Linux is asked for at a time: of more, it fetches the first few MiB alone.
#[cfg(unix)]
const ADVISED_BYTES: usize = 1 << 20;

/// A file that is mapped to be read.
#[derive(Debug)]
pub(crate) struct MappedFile {
    path: PathBuf,
    file: File,
    map: Mmap,
    state: State,
}

/// What tells that a file was written to.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    length: u64,
    /// None where the system does not tell.
    modified: Option<SystemTime>,
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl MappedFile {
    /// Maps a regular file. A browser has none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, metadata) = open_regular(path).map_err(failed(path))?;
        #[expect(unsafe_code, reason = "the system maps a file, which another program may write to")]
        // SAFETY: nobody may write to the file while it is mapped: the documentation of `Residency::Mapped` says so, and `check` looks
        // for it before each use. The bytes are only read as numbers, for which any bits are valid.
        let map = unsafe { Mmap::map(&file) }.map_err(failed(path))?;
        Ok(Self { path: path.into(), file, map, state: State::of(&metadata) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// An error if the file was written to, or cut, since it was mapped. Reading what was cut off would end the process.
    pub(crate) fn check(&self) -> Result<()> {
        let now = State::of(&self.file.metadata().map_err(failed(&self.path))?);
        if now == self.state {
            return Ok(());
        }
        let found = match now.length == self.state.length {
            true => "one that was written to since".to_owned(),
            false => format!("{} bytes", now.length),
        };
        let needed = format!("the file as it was when it was mapped, with {} bytes", self.state.length);
        Err(mismatch(&self.path, needed, found))
    }

    /// Tells the system that the file is read from its start to its end, or else here and there.
    pub(crate) fn expect_order(&self, is_in_order: bool) {
        #[cfg(unix)]
        {
            use memmap2::Advice::{Random, Sequential};
            // Advice that is not taken changes no byte.
            let _ = self.map.advise(if is_in_order { Sequential } else { Random });
        }
        #[cfg(not(unix))]
        let _ = is_in_order;
    }

    /// Tells the system that these bytes are read soon, so that it fetches them from the disk while others are used.
    pub(crate) fn will_need(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        for start in bytes.clone().step_by(ADVISED_BYTES) {
            let length = ADVISED_BYTES.min(bytes.end - start);
            let _ = self.map.advise_range(memmap2::Advice::WillNeed, start, length);
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }
}
