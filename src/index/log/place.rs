//! The files beside that of an index.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::{failed, link_target, mismatch, same_access, sync_directory};

/// The file of the log of a saved index.
pub(crate) fn log_path(index: &Path) -> PathBuf {
    with_ending(index, ".log")
}

/// The path of an index with something behind its name. One that is a link has its log where the file is.
fn with_ending(index: &Path, ending: &str) -> PathBuf {
    let mut name = link_target(index).unwrap_or_else(|_| index.into()).into_os_string();
    name.push(ending);
    name.into()
}

/// Keeps other writers from an index. The system drops it when the process ends, however that ends.
#[derive(Debug)]
pub(crate) struct WriterLock(File);

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A process that another thread is starting has the open file too, until it runs its own program.
        self.0.unlock().ok();
    }
}

impl WriterLock {
    /// Takes the lock of an index whose file is about to be replaced, if it has a log: none where there is none.
    pub(crate) fn of_log(index: &Path) -> Result<Option<Self>> {
        log_path(index).exists().then(|| Self::take(index)).transpose()
    }

    /// Removes the log of an index whose file was replaced.
    pub(crate) fn remove_log(self, index: &Path) -> Result<()> {
        let path = log_path(index);
        fs::remove_file(&path).and_then(|()| sync_directory(&path)).map_err(failed(&path))
    }

    /// # Errors
    /// [`Error::File`](crate::Error::File) while another writer has the index.
    pub(crate) fn take(index: &Path) -> Result<Self> {
        let path = with_ending(index, ".lock");
        let open = |is_new| OpenOptions::new().write(true).create_new(is_new).open(&path);
        let file = match open(true) {
            Ok(file) => {
                // Whoever may change the index may lock it. A new one has no file yet.
                same_access(&file, index).ok();
                file
            }
            Err(_) => open(false).map_err(failed(&path))?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(mismatch(index, "an index that no other writer has open", "one that a writer has open"))
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(Self(file)),
            Err(TryLockError::Error(error)) => Err(failed(&path)(error)),
        }
    }
}
