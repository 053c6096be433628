//! A directory for what the script reads.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, process};

use anyhow::{Context, Result, ensure};
use nearfield::io::write_npy;

use crate::bench::data::Vectors;
use crate::output;

/// A directory that is removed with what is in it.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn new() -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("nearfield-peers-{}-{}", process::id(), now.as_nanos());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("TMPDIR: {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// An error that says what would fit, where so many vectors do not fit the disk.
    pub(super) fn has_room(&self, argument: &str, count: usize, dim: usize) -> Result<()> {
        let Some(free) = self.free() else { return Ok(()) };
        let each = 4 * dim.max(1) as u64;
        let bytes = (count as u64).saturating_mul(each);
        ensure!(
            bytes <= free,
            "{argument}: {count} vectors of dim {dim} do not fit {} (TMPDIR): they take {}, and {} are free, enough for {}",
            env::temp_dir().display(),
            output::bytes(bytes),
            output::bytes(free),
            free / each
        );
        Ok(())
    }

    /// Bytes that are free, where the system tells.
    fn free(&self) -> Option<u64> {
        let path = self.0.canonicalize().ok()?;
        let disks = sysinfo::Disks::new_with_refreshed_list();
        let of = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
        let disk = of.max_by_key(|disk| disk.mount_point().components().count())?;
        // Some file systems tell nothing of themselves, and say 0 of 0.
        (disk.total_space() > 0).then(|| disk.available_space())
    }

    pub(super) fn write(&self, path: &Path, vectors: Vectors) -> Result<()> {
        let rows = vectors.values.len() / vectors.dim.max(1);
        write_npy(path, [rows, vectors.dim], &vectors.values).context("TMPDIR")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The system clears its temporary files, and whoever has an error has another one to read of.
        fs::remove_dir_all(&self.0).ok();
    }
}
