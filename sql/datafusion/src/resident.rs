//! Saved indexes that stay in memory between queries.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use datafusion::common::Result;
use nearfield::{Device, Index, SavedIndex};

use crate::error::external;
use crate::options::NearfieldOptions;

/// The bytes of a file, and when they were written.
type Version = (u64, Option<SystemTime>);

/// A file as it was when its index was loaded: one that was written anew, or that has other changes in its log, is loaded again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    path: PathBuf,
    file: Version,
    log: Option<Version>,
    device: String,
}

impl Key {
    fn new(path: &Path, device: &str) -> Result<Self> {
        let of_file = |cause| external(nearfield::Error::Io { path: path.to_owned(), cause });
        let version = |metadata: fs::Metadata| (metadata.len(), metadata.modified().ok());
        let file = version(fs::metadata(path).map_err(of_file)?);
        let log = fs::metadata(SavedIndex::log_path(path)).ok().map(version);
        let path = path.canonicalize().map_err(of_file)?;
        Ok(Self { path, file, log, device: device.into() })
    }
}

/// A slot that one query fills while others wait for it.
type Slot = Arc<Mutex<Option<Arc<Index>>>>;

#[derive(Default)]
struct Resident {
    /// With the number of the last query that used each.
    indexes: HashMap<Key, (Slot, u64)>,
    queries: u64,
}

/// Stands for a process that leaves the limit to its sessions.
const NO_LIMIT: u64 = u64::MAX;
static LIMIT: AtomicU64 = AtomicU64::new(NO_LIMIT);

static RESIDENT: LazyLock<Mutex<Resident>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of a file, loaded if it is not in memory. Blocks while it loads.
///
/// Those used longest ago leave until all take no more than the options allow. One that alone takes more is dropped after the query.
pub(crate) fn index(path: &Path, options: &NearfieldOptions) -> Result<Arc<Index>> {
    let key = Key::new(path, &options.device)?;
    let device = options.open().map_err(external)?;
    let slot = {
        let mut resident = lock(&RESIDENT);
        resident.queries += 1;
        let now = resident.queries;
        // The index of an earlier version of the file leaves.
        resident
            .indexes
            .retain(|other, _| *other == key || other.path != key.path || other.device != key.device);
        let (slot, used) = resident.indexes.entry(key.clone()).or_default();
        *used = now;
        slot.clone()
    };
    let mut loaded = lock(&slot);
    let index = match &*loaded {
        Some(index) if is_on(index, &device) => return Ok(index.clone()),
        _ => {
            let index = Index::load(&device, &key.path).map_err(external);
            let index = index.inspect_err(|_| drop(lock(&RESIDENT).indexes.remove(&key)))?;
            loaded.insert(Arc::new(index)).clone()
        }
    };
    drop(loaded);
    evict(match LIMIT.load(Ordering::Relaxed) {
        NO_LIMIT => options.resident_bytes as u64,
        limit => limit,
    });
    Ok(index)
}

/// Whether an index is on this device. A GPU that was lost is another when it is opened again.
fn is_on(index: &Index, device: &Device) -> bool {
    match (index.device().wgpu_device(), device.wgpu_device()) {
        (Ok(own), Ok(other)) => own == other,
        (own, other) => own.is_err() && other.is_err(),
    }
}

/// Drops the indexes used longest ago until the others take no more than this. A query keeps its own until it ends.
fn evict(most: u64) {
    let mut resident = lock(&RESIDENT);
    loop {
        // One that loads now has no bytes yet.
        let bytes = |slot: &Slot| {
            let index = slot.try_lock().ok().and_then(|slot| slot.clone());
            index.map_or(0, |index| index.memory().total())
        };
        let all: u64 = resident.indexes.values().map(|(slot, _)| bytes(slot)).sum();
        let oldest = resident
            .indexes
            .iter()
            .filter(|(_, (slot, _))| bytes(slot) > 0)
            .min_by_key(|(_, (_, used))| *used);
        let Some(oldest) = oldest.map(|(key, _)| key.clone()).filter(|_| all > most) else { return };
        resident.indexes.remove(&oldest);
    }
}

/// Sets the bytes of indexes that stay in memory in this process, in place of each session's `nearfield.resident_bytes`: the machine of a
/// cluster knows its own memory, and the client does not.
pub fn set_resident_limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The paths of the indexes that are in memory.
pub fn resident_indexes() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = lock(&RESIDENT).indexes.keys().map(|key| key.path.clone()).collect();
    paths.sort();
    paths
}
