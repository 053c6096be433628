//! Files that appear under their path only when they are complete.

use std::fs::{self, File, Metadata};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use crate::files::temporary::{Temporary, directory};
use crate::memory;

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 18;

/// The most links that a path may lead through, as on Linux.
const MOST_LINKS: usize = 40;

/// A file that is written under a temporary name in its directory. [`finish`](Self::finish) moves it to its path. If it is
/// dropped before that, nothing is left behind and an existing file stays.
#[derive(Debug)]
pub(crate) struct Pending {
    path: PathBuf,
    temporary: Temporary,
    file: BufWriter<File>,
}

impl Pending {
    /// Starts a file of at least `bytes` bytes for `path`, or for the target if `path` is a link. It gets the owner and the
    /// permissions of the file that it replaces, before its first byte.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Self> {
        let path = link_target(path)?;
        let replaced = match fs::metadata(&path) {
            Ok(there) if !there.is_file() => {
                return Err(Error::new(ErrorKind::InvalidInput, "there is something else than a file"));
            }
            Ok(there) => Some(there),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        check_space(directory(&path), bytes)?;
        let (temporary, file) = Temporary::create(&path, replaced.is_some())?;
        if let Some(replaced) = replaced {
            keep_permissions(&file, &replaced)?;
        }
        memory::check_small(BUFFER).map_err(|_| ErrorKind::OutOfMemory)?;
        Ok(Self { path, temporary, file: BufWriter::with_capacity(BUFFER, file) })
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut BufWriter<File> {
        &mut self.file
    }

    /// Moves the file to its path once all bytes are on the disk, and waits until the disk has its name as well.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let Self { path, temporary, file } = self;
        // Some systems cannot rename an open file. Elsewhere it keeps its lock, so that nobody takes it for an abandoned one.
        #[cfg(not(unix))]
        drop(file);
        temporary.rename(&path)?;
        #[cfg(unix)]
        drop(file);
        sync_directory(&path)
    }
}

/// The path that `path` leads to. A rename to a link would replace the link itself. The last link may lead to a file that is
/// not there yet.
pub(crate) fn link_target(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            // A relative target starts at the link's directory; `join` takes an absolute one as it is.
            Ok(next) => path = directory(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("more than {MOST_LINKS} links, or links in a circle")))
}

/// Refuses to start a file for which the disk has too little space.
#[cfg(unix)]
fn check_space(directory: &Path, bytes: u64) -> Result<()> {
    // A file system that does not tell is no reason to fail.
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Some network file systems report no blocks at all.
    if bytes <= free || disk.f_blocks == 0 {
        return Ok(());
    }
    let message = format!("needed {bytes} free bytes on the disk, found {free}");
    Err(Error::new(ErrorKind::StorageFull, message))
}

/// On other systems, the disk says so when it is full.
#[cfg(not(unix))]
fn check_space(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// Gives a new file the owner and the permissions of another.
pub(crate) fn same_access(file: &File, other: &Path) -> Result<()> {
    keep_permissions(file, &fs::metadata(other)?)
}

/// Gives a new file the owner and the permissions of the file that it replaces.
#[cfg(unix)]
fn keep_permissions(file: &File, replaced: &Metadata) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let (mut mode, own) = (replaced.mode() & 0o777, file.metadata()?);
    if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid()) {
        let group = Some(replaced.gid());
        // Members of a group may give it files, also where only the administrator may change the owner.
        let given = fchown(file, Some(replaced.uid()), group).or_else(|_| fchown(file, None, group));
        // What the old group may do is no business of the new one.
        if given.is_err() && own.gid() != replaced.gid() {
            mode &= !0o070;
        }
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Elsewhere, the only permission is whether a file can be written, and one that cannot is not replaced either.
#[cfg(not(unix))]
fn keep_permissions(_: &File, _: &Metadata) -> Result<()> {
    Ok(())
}

/// Waits until the disk has the names in the directory of `path`. Before that, a crash may bring the old file back.
#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    match File::open(directory(path))?.sync_all() {
        // Some network file systems do not support this call and store names at once.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Other systems cannot open a directory like a file. On Windows, NTFS keeps a journal of names, so a crash leaves either the
/// old file or the new one.
#[cfg(not(unix))]
pub(crate) fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut pending = Pending::create(path, bytes.len() as u64)?;
        pending.file().write_all(bytes)?;
        pending.finish()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn links_lead_to_the_file_and_other_things_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        fs::write(&file, "old").expect("written");
        symlink(&file, &link).expect("a link");
        replace(&link, b"new").expect("replaced");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&file).expect("read"), b"new");
        for there in [directory.path(), Path::new("/dev/null")] {
            assert_eq!(Pending::create(there, 0).expect_err("refused").kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_dangling_link_leads_to_the_new_file_and_a_loop_of_links_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("below")).expect("a directory");
        symlink("below/second", at("first")).expect("a link");
        symlink("../file", at("below/second")).expect("a link");
        replace(&at("first"), b"new").expect("written");
        assert!(fs::symlink_metadata(at("first")).expect("there").is_symlink());
        assert_eq!(fs::read(at("file")).expect("read"), b"new");

        symlink("absent/file", at("lost")).expect("a link");
        assert_eq!(Pending::create(&at("lost"), 0).expect_err("refused").kind(), ErrorKind::NotFound);
        symlink("there", at("back")).expect("a link");
        symlink("back", at("there")).expect("a link");
        let error = Pending::create(&at("back"), 0).expect_err("refused").to_string();
        assert!(error.contains("links in a circle"), "{error}");
        assert!(fs::symlink_metadata(at("back")).expect("there").is_symlink());
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_from_the_first_byte_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        for kept in [0o600, 0o640, 0o666] {
            fs::write(&path, "old").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(kept)).expect("set");
            let pending = Pending::create(&path, 0).expect("starts");
            let hidden = names(directory.path()).into_iter().find(|name| name.ends_with(".tmp"));
            assert_eq!(mode(&directory.path().join(hidden.expect("a temporary file"))), kept);
            pending.finish().expect("finished");
            assert_eq!(mode(&path), kept);
        }
    }

    #[test]
    fn a_file_larger_than_the_free_space_is_refused_before_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = Pending::create(&directory.path().join("file"), 1 << 62).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().starts_with(&format!("needed {} free bytes", 1u64 << 62)), "{error}");
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn temporary_files_of_dead_writers_go_and_those_of_living_ones_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        // Of a killed process, of another file, and names that nobody here wrote.
        let others = [".other.1-0.tmp", ".file.x-0.tmp", ".file.1.tmp", "file.1-0.tmp", ".file.1-0.tmp.bak"];
        for name in others.iter().chain(&[".file.1-0.tmp", ".file.1-77.tmp"]) {
            fs::write(at(name), "left").expect("written");
        }
        let living = Pending::create(&at("file"), 0).expect("starts");
        let second = Pending::create(&at("file"), 0).expect("starts");
        let mut left: Vec<_> = names(directory.path());
        left.retain(|name| !others.contains(&name.as_str()));
        assert_eq!(left.len(), 2, "the two that are being written: {left:?}");
        second.finish().expect("finished");
        living.finish().expect("finished");
        assert_eq!(names(directory.path()).len(), others.len() + 1);
    }
}
