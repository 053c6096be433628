//! Files that appear under their name when they are whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is being written under another name in the directory of its own. It takes its place when it is finished;
/// when it is dropped before that, nothing of it is left, and what was in its place stays.
#[derive(Debug)]
pub(crate) struct Pending {
    path: PathBuf,
    temporary: Temporary,
    file: BufWriter<File>,
}

/// A path that is removed when this is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The error to report is the one that led here. After a rename there is no path.
        fs::remove_file(&self.0).ok();
    }
}

impl Pending {
    /// Starts a file that will be at `path`, or where a link there leads to.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        // A rename would replace a link, or a device, itself.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(Error::new(ErrorKind::InvalidInput, "there is something else than a file"));
        }
        let (temporary, file) = loop {
            let temporary = path.with_file_name(temporary_name(path));
            match File::create_new(&temporary) {
                // Left behind by a process that was killed: in a container the next one often has the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                file => break (Temporary(temporary), file?),
            }
        };
        Ok(Self { path: path.to_path_buf(), temporary, file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// What the content is written to.
    pub(crate) fn file(&mut self) -> &mut BufWriter<File> {
        &mut self.file
    }

    /// Puts the file in its place, once all of it is on the disk, and waits until the disk has its name as well.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        // An open file cannot be renamed everywhere.
        let Self { path, mut temporary, file } = self;
        drop(file);
        fs::rename(&temporary.0, &path)?;
        // The name is free, and may be another's by now.
        temporary.0.clear();
        sync_directory(&path)
    }
}

/// Waits until the disk has the names in the directory of `path`: before that a crash may bring the old file back.
#[cfg(unix)]
fn sync_directory(path: &Path) -> Result<()> {
    // The directory of a bare name is the empty path, which no system opens.
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    match File::open(directory.unwrap_or(Path::new(".")))?.sync_all() {
        // Some network file systems have no such call, and keep names by themselves.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Other systems do not open a directory like a file. On Windows, NTFS keeps a journal of names, so that a crash leaves the
/// old file or the new one, without a promise which.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}

/// Longer names are left out of temporary ones, which have 40 bytes more: most systems have names of up to 255 bytes.
const LONG_NAME: usize = 200;

/// A hidden name that no other call uses at the same time.
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
