//! Files that are there when they are whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is being written under another name in the directory of its own. It takes its place when it is finished;
/// when it is dropped before that, nothing of it is left, and what was in its place stays.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    temporary: Temporary,
    file: BufWriter<File>,
}

/// A path that is removed when this is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The error to report is the one that led here. After a rename there is nothing to remove.
        fs::remove_file(&self.0).ok();
    }
}

impl Pending {
    /// Starts a file that will be at `path`.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let temporary = path.with_file_name(temporary_name(path));
        let file = File::create_new(&temporary)?;
        let temporary = Temporary(temporary);
        Ok(Self { path: path.to_path_buf(), temporary, file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// What the content is written to.
    pub(super) fn file(&mut self) -> &mut BufWriter<File> {
        &mut self.file
    }

    /// Puts the file in its place, once all of it is on the disk.
    pub(super) fn finish(mut self) -> Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        // An open file cannot be renamed everywhere.
        let Self { path, temporary, file } = self;
        drop(file);
        fs::rename(&temporary.0, path)
    }
}

/// A hidden name that no other call uses at the same time.
fn temporary_name(path: &Path) -> OsString {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.tmp", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed)));
    name
}
