//! A file with the driver's own form of compiled kernels, so that the next process does not compile them again.
//!
//! Nothing here fails: without the file, or with a damaged one, kernels are compiled as if there had never been one.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files::Pending;
use crate::gpu::state::{Faults, close_scope};

/// The first bytes of a file. The checksum of all bytes behind both follows.
const MAGIC: &[u8; 8] = b"nearfKC1";

/// Bytes in front of the driver's data.
const HEADER: usize = MAGIC.len() + size_of::<u64>();

/// Larger files are neither written nor read. All kernels of the library take a few MiB.
const MOST_BYTES: u64 = 64 << 20;

/// Files that a directory keeps: those written last. A new driver or version of the library starts a new file.
const MOST_FILES: usize = 8;

/// The files' extension.
const EXTENSION: &str = "kernels";

/// A cache of the driver, and its file.
#[derive(Debug)]
pub(super) struct CacheFile {
    pub(super) cache: wgpu::PipelineCache,
    path: PathBuf,
    /// The checksum of the data in the file; 0 for none.
    stored: AtomicU64,
}

impl CacheFile {
    /// The cache of a device, with what its file in `directory` holds. None if the device has no such caches.
    pub(super) fn open(device: &wgpu::Device, faults: &Mutex<Faults>, directory: &Path) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let info = device.adapter_info();
        let key = wgpu::util::pipeline_cache_key(&info)?;
        let versions = [&info.driver, &info.driver_info, env!("CARGO_PKG_VERSION")].join("\n");
        let name = format!("{key}_{:016x}.{EXTENSION}", xxh3_64(versions.as_bytes()));
        let path = directory.join(name);
        let file = read(&path, MOST_BYTES + HEADER as u64);
        let data = file.as_deref().and_then(checked);
        let descriptor = wgpu::PipelineCacheDescriptor { label: Some("nearfield"), data, fallback: true };
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        #[expect(
            unsafe_code,
            reason = "a driver may trust the data: they are its own, which a checksum shows to be whole"
        )]
        // SAFETY: the data come from `PipelineCache::get_data` for the same adapter, driver and version of the library, and their
        // checksum is right. The file lies in a directory of the user's own.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        close_scope(faults, scope, |fault| Error::Device { message: fault.to_string() }).ok()?;
        Some(Self { cache, path, stored: AtomicU64::new(data.map_or(0, xxh3_64)) })
    }

    /// Writes the file unless it has the same data already.
    pub(super) fn save(&self) {
        let Some(data) = self.cache.get_data().filter(|data| data.len() as u64 <= MOST_BYTES) else { return };
        let checksum = xxh3_64(&data);
        if self.stored.swap(checksum, Ordering::Relaxed) != checksum {
            write(&self.path, &[MAGIC, &checksum.to_le_bytes(), &data]);
        }
    }
}

/// The bytes of a regular file of at most this many, which is ours in a directory that is ours.
pub(super) fn read(path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
    let about = fs::symlink_metadata(path).ok().filter(|about| about.is_file() && is_ours(about))?;
    let directory = path.parent().and_then(|directory| fs::metadata(directory).ok())?;
    (is_ours(&directory) && about.len() <= most_bytes).then(|| fs::read(path).ok()).flatten()
}

/// Whether a file or a directory is this user's, and nobody else may write to it: drivers trust what they find there.
#[cfg(unix)]
fn is_ours(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0
}

/// Elsewhere the directory of a user is the user's own.
#[cfg(not(unix))]
fn is_ours(_: &fs::Metadata) -> bool {
    true
}

/// Makes a directory that this user alone may use. One that is there stays as it is: it may serve others too, as `/tmp` does.
fn create_directory(directory: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// The driver's data in a file, if they are as they were written.
fn checked(file: &[u8]) -> Option<&[u8]> {
    let (checksum, data) = file.strip_prefix(MAGIC)?.split_first_chunk()?;
    (u64::from_le_bytes(*checksum) == xxh3_64(data)).then_some(data)
}

/// Writes a file, and removes those beside it with its extension that were written longest ago. A directory that cannot be written costs
/// time in the next process and nothing else.
pub(super) fn write(path: &Path, parts: &[&[u8]]) {
    let written = || {
        let directory = path.parent()?;
        create_directory(directory).ok()?;
        // A link would have us write where it leads.
        let is_other = fs::symlink_metadata(path).is_ok_and(|about| !about.is_file());
        if is_other || !is_ours(&fs::metadata(directory).ok()?) {
            return None;
        }
        let mut pending = Pending::create(path, parts.iter().map(|part| part.len() as u64).sum()).ok()?;
        #[cfg(unix)]
        pending.file().get_ref().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).ok()?;
        parts.iter().try_for_each(|part| pending.file().write_all(part)).ok()?;
        pending.finish().ok()
    };
    if let (Some(()), Some(extension)) = (written(), path.extension()) {
        remove_oldest(path, extension);
    }
}

/// Removes the files with this extension beside one that were written longest ago.
fn remove_oldest(path: &Path, extension: &OsStr) {
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else { return };
    let written = |entry: fs::DirEntry| {
        let is_ours = entry.path().extension().is_some_and(|own| own == extension);
        let time = entry.metadata().and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        is_ours.then(|| (time, entry.path()))
    };
    let mut files: Vec<_> = entries.filter_map(Result::ok).filter_map(written).collect();
    files.sort_unstable();
    for (_, old) in files.iter().rev().skip(MOST_FILES) {
        // Another process may have removed it.
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_data_are_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deeper").join("one.kernels");
        let data: Vec<u8> = (0..200).collect();
        write(&path, &[MAGIC, &xxh3_64(&data).to_le_bytes(), &data]);
        let file = read(&path, MOST_BYTES).expect("a file");
        assert_eq!(checked(&file), Some(&data[..]));
        for length in 0..file.len() {
            assert_eq!(checked(&file[..length]), None, "cut to {length} bytes");
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 1;
            assert_eq!(checked(&damaged), None, "byte {place} is another");
        }
        assert_eq!(read(directory.path(), MOST_BYTES), None, "a directory is no file");
        assert_eq!(read(&path, file.len() as u64 - 1), None, "too large");
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_have_written_is_neither_read_nor_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().expect("a directory");
        let ours = directory.path().join("ours");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let path = ours.join("one.kernels");
        write(&path, &[b"data"]);
        assert_eq!((mode(&ours), mode(&path)), (0o700, 0o600));
        // A link in the place of the file.
        let precious = directory.path().join("precious");
        fs::write(&precious, "stays").expect("written");
        let link = ours.join("two.kernels");
        symlink(&precious, &link).expect("a link");
        write(&link, &[b"data"]);
        assert_eq!(fs::read(&precious).expect("it is there"), b"stays");
        assert_eq!(read(&link, MOST_BYTES), None);
        // A directory that others may write to.
        assert!(read(&path, MOST_BYTES).is_some());
        for open in [0o777, 0o770] {
            fs::set_permissions(&ours, fs::Permissions::from_mode(open)).expect("its owner's");
            assert_eq!(read(&path, MOST_BYTES), None);
            write(&ours.join("three.kernels"), &[b"data"]);
            assert!(mode(&ours) == open && !ours.join("three.kernels").exists());
        }
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o700)).expect("its owner's");
        assert!(read(&path, MOST_BYTES).is_some());
        // A file that others could change.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its owner's");
        assert_eq!(read(&path, MOST_BYTES), None);
    }

    #[test]
    fn a_directory_keeps_the_files_written_last() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |number: usize| directory.path().join(format!("{number}.{EXTENSION}"));
        fs::write(directory.path().join("other.txt"), "stays").expect("written");
        for number in 0..MOST_FILES + 3 {
            fs::write(path(number), "").expect("written");
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + number as u64);
            let file = fs::File::options().append(true).open(path(number)).expect("there");
            file.set_modified(time).expect("a time");
        }
        write(&path(MOST_FILES + 3), &[b"newest"]);
        let left: Vec<usize> = (0..MOST_FILES + 4).filter(|&number| path(number).exists()).collect();
        assert_eq!(left, (4..MOST_FILES + 4).collect::<Vec<_>>());
        assert!(directory.path().join("other.txt").exists());
    }
}
