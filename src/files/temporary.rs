//! Temporary files that no process leaves behind for ever.
//!
//! A writer keeps its temporary file locked. A system drops the locks of a process that ends, however it ends, so the next
//! writer of the same name can tell an abandoned file from one that is being written, in other containers too.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;
use crate::platform::process_id;

/// The temporary files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A temporary file, which is removed on drop.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// Creates the temporary file of `path` beside it. If `is_private`, only the owner of the process can read it. First
    /// removes those of writers that are gone.
    pub(super) fn create(path: &Path, is_private: bool) -> Result<(Self, File)> {
        remove_abandoned(path);
        loop {
            let name = path.with_file_name(temporary_name(path));
            let mut unfinished = lock(&UNFINISHED);
            let file = match options(is_private).open(&name) {
                // Another container may have a process of the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            unfinished.insert(name.clone());
            drop(unfinished);
            let temporary = Self(name);
            // Another writer may have found the file before it was locked, and taken it for an abandoned one.
            let is_ours = !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && temporary.0.exists();
            if is_ours {
                return Ok((temporary, file));
            }
        }
    }

    /// Moves the file to `path`.
    pub(super) fn rename(self, path: &Path) -> Result<()> {
        let mut unfinished = lock(&UNFINISHED);
        fs::rename(&self.0, path)?;
        // The name is free, and another file may have it by now.
        unfinished.remove(&self.0);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut unfinished = lock(&UNFINISHED);
        if unfinished.remove(&self.0) {
            // Ignored: the error that led here is the one to report.
            fs::remove_file(&self.0).ok();
        }
    }
}

/// Removes the unfinished files of this process: those that it is saving or writing.
///
/// For a program that is about to end, in its handler of an interrupt for instance. Afterwards, whoever finishes or starts a
/// file waits for ever, so that none is left behind.
pub fn remove_unfinished() {
    let unfinished = lock(&UNFINISHED);
    for path in unfinished.iter() {
        fs::remove_file(path).ok();
    }
    std::mem::forget(unfinished);
}

fn options(is_private: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = is_private;
    options
}

/// The directory of a path. That of a bare name is the empty path, which no system opens.
pub(super) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the temporary files of `path` that nobody has locked. Where a file system has no locks, they stay.
fn remove_abandoned(path: &Path) {
    let Ok(entries) = fs::read_dir(directory(path)) else { return };
    let prefix = temporary_prefix(path);
    for entry in entries.flatten() {
        let is_temporary = |name: &[u8]| {
            let number = name.strip_prefix(prefix.as_encoded_bytes())?.strip_suffix(b".tmp")?;
            let (process, call) = std::str::from_utf8(number).ok()?.split_once('-')?;
            process.parse::<u32>().ok().zip(call.parse::<u64>().ok())
        };
        if is_temporary(entry.file_name().as_encoded_bytes()).is_some()
            // Opening a pipe would wait.
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// The longest file name that a temporary name contains. It adds 40 bytes, and most systems allow 255.
const LONG_NAME: usize = 200;

/// A hidden name that no concurrent call uses: a prefix, process and call, `.tmp`.
fn temporary_name(path: &Path) -> OsString {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut name = temporary_prefix(path);
    name.push(format!("{}-{}.tmp", process_id(), CALLS.fetch_add(1, Ordering::Relaxed)));
    name
}

fn temporary_prefix(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().filter(|own| own.len() <= LONG_NAME).unwrap_or_default());
    name.push(".");
    name
}
