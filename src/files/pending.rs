//! Files that appear under their path only when they are complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is written under a temporary name in its directory. [`finish`](Self::finish) moves it to its path. If it is
/// dropped before that, nothing is left behind and an existing file stays.
#[derive(Debug)]
pub(crate) struct Pending {
    path: PathBuf,
    temporary: Temporary,
    file: BufWriter<File>,
}

/// A path that is removed on drop.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Ignored: the error that led here is the one to report, and after a rename the path is empty.
        fs::remove_file(&self.0).ok();
    }
}

impl Pending {
    /// Starts a file for `path`, or for the target if `path` is a link.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        // A rename would replace the link or the device itself.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(Error::new(ErrorKind::InvalidInput, "there is something else than a file"));
        }
        let (temporary, file) = loop {
            let temporary = path.with_file_name(temporary_name(path));
            match File::create_new(&temporary) {
                // A killed process left it behind; in a container the next process often has the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                file => break (Temporary(temporary), file?),
            }
        };
        Ok(Self { path: path.to_path_buf(), temporary, file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut BufWriter<File> {
        &mut self.file
    }

    /// Moves the file to its path once all bytes are on the disk, and waits until the disk has its name as well.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        // Some systems cannot rename an open file.
        let Self { path, mut temporary, file } = self;
        drop(file);
        fs::rename(&temporary.0, &path)?;
        // The temporary name is free, and another file may have it by now.
        temporary.0.clear();
        sync_directory(&path)
    }
}

/// Waits until the disk has the names in the directory of `path`. Before that, a crash may bring the old file back.
#[cfg(unix)]
fn sync_directory(path: &Path) -> Result<()> {
    // The directory of a bare name is the empty path, which no system opens.
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    match File::open(directory.unwrap_or(Path::new(".")))?.sync_all() {
        // Some network file systems do not support this call and store names at once.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Other systems cannot open a directory like a file. On Windows, NTFS keeps a journal of names, so a crash leaves either the
/// old file or the new one.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}

/// The longest file name that a temporary name contains. It adds 40 bytes, and most systems allow 255.
const LONG_NAME: usize = 200;

/// A hidden name that no concurrent call uses.
fn temporary_name(path: &Path) -> OsString {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().filter(|own| own.len() <= LONG_NAME).unwrap_or_default());
    name.push(format!(".{}-{}.tmp", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed)));
    name
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_file_and_other_things_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let mut pending = Pending::create(&link).expect("starts");
        pending.file().write_all(b"new").expect("written");
        pending.finish().expect("finished");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&file).expect("read"), b"new");
        for there in [directory.path(), Path::new("/dev/null")] {
            assert_eq!(Pending::create(there).expect_err("refused").kind(), ErrorKind::InvalidInput);
        }
    }
}
