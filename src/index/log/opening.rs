//! Opens a saved index and its log as they are at one moment, while a writer may change both.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::mismatch;
use crate::index::common::Resources;
use crate::index::file::Reader;
use crate::index::log::place::log_path;
use crate::index::log::reader::Log;
use crate::index::log::record::{ChangeKind, LogShape};
use crate::index::log::replay::replay;
use crate::index::saved::kept::FromSaved;
use crate::index::saved::{CHANGES_OF, Loading, SavedIndex, SavedKind};

/// What the log beside the file of an index has: see [`Durable`](crate::Durable).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedLog {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the whole changes.
    pub bytes: u64,
    /// How many rows they add.
    pub added: u64,
    /// How many rows they replace.
    pub updated: u64,
    /// How many rows they remove.
    pub removed: u64,
    /// Bytes of a change that is not finished: it is being written, or its writer was killed.
    pub unfinished: u64,
}

impl SavedIndex {
    /// The file of the log of an index: its own name and `.log`, beside the file that a link leads to.
    pub fn log_path(path: impl AsRef<Path>) -> PathBuf {
        log_path(path.as_ref())
    }

    /// Reads what the log beside the file of an index has; none without a log of this index. It needs no device.
    ///
    /// # Errors
    /// As [`SavedIndex::read`]; [`Error::File`](crate::Error::File) for a log that is damaged or of another index.
    pub fn log(path: impl AsRef<Path>) -> Result<Option<SavedLog>> {
        let (_, log, _) = read(path.as_ref(), &SavedKind::ALL)?;
        let Some(log) = log else { return Ok(None) };
        let [added, updated, removed] =
            [ChangeKind::Add, ChangeKind::Update, ChangeKind::Remove].map(|kind| log.ids(kind));
        let (path, bytes, unfinished) = (log.path().to_owned(), log.bytes(), log.unfinished());
        Ok(Some(SavedLog { path, bytes, added, updated, removed, unfinished }))
    }
}

/// How often a file and its log are read until they belong together.
const TRIES: usize = 5;

/// An index that was loaded, with the changes of its log.
pub(crate) struct Opened<I> {
    pub(crate) index: I,
    /// What its log has to have as its shape.
    pub(crate) shape: LogShape,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// The log, if there is one of this file.
    pub(crate) log: Option<Log>,
}

/// Loads the index of a file, and makes the changes of its log.
///
/// # Errors
/// As [`Loader::load`](crate::Loader::load); [`Error::File`](crate::Error::File) for a log that is damaged or of another index.
pub(crate) async fn open<I: FromSaved>(path: &Path, resources: Resources) -> Result<Opened<I>> {
    let mut tries = 1;
    loop {
        let (loading, log, shape) = read(path, I::KINDS)?;
        let (bytes, rows) = (loading.bytes(), loading.about.rows as u64);
        let mut resources = resources.clone();
        let expected = log.as_ref().map_or(rows, |log| log.most_rows(rows));
        resources.capacity = resources.capacity.max(expected as usize);
        let mut index = I::from_saved(loading, resources).await?;
        let replayed = match &log {
            Some(log) => replay(&mut index, log).await,
            None => Ok(()),
        };
        // A checkpoint may have emptied the log since it was read.
        if replayed.is_err() && tries < TRIES && identity(path)? != shape.index {
            tries += 1;
            continue;
        }
        return replayed.map(|()| Opened { index, shape, bytes, log });
    }
}

/// The file and its log, if it has one.
fn read(path: &Path, kinds: &[SavedKind]) -> Result<(Loading<'static>, Option<Log>, LogShape)> {
    let mut tries = 1;
    loop {
        let reader = Reader::open(path)?;
        let (index, before) = (reader.identity(), changes_of(&reader)?);
        let loading = Loading::new(reader, kinds)?;
        let row_bytes = (loading.about.dim * loading.about.elements.size()) as u64;
        let shape = LogShape { index, row_bytes };
        let log = Log::read(path, |given| {
            // A checkpoint has put the changes into the file, and has not emptied the log yet.
            if Some(given.index) == before {
                return Ok(false);
            }
            let other = || {
                let needed = format!("changes of {} (remove the log if they are not wanted)", path.display());
                mismatch(&log_path(path), needed, "those of another index")
            };
            if given == shape { Ok(true) } else { Err(other()) }
        });
        if identity(path)? == index {
            return Ok((loading, log?, shape));
        }
        if tries == TRIES {
            return Err(mismatch(
                path,
                "an index that stays while it is read",
                "one that was replaced meanwhile",
            ));
        }
        tries += 1;
    }
}

/// The index whose log has the changes that a file has too.
pub(crate) fn changes_of(reader: &Reader<'_>) -> Result<Option<u64>> {
    let digits = reader.has(CHANGES_OF).then(|| reader.get::<String>(CHANGES_OF, "hexadecimal digits"));
    Ok(digits.transpose()?.and_then(|digits| u64::from_str_radix(&digits, 16).ok()))
}

/// What tells the index of a file from every other.
pub(crate) fn identity(path: &Path) -> Result<u64> {
    Ok(Reader::open(path)?.identity())
}

/// Whether the log of an index of this shape has changes, or is another by now.
pub(crate) fn has_changes(path: &Path, shape: LogShape) -> Result<bool> {
    let mut is_other = false;
    let log = Log::read(path, |given| {
        is_other = given != shape;
        Ok(!is_other)
    })?;
    Ok(is_other || log.is_some_and(|log| !log.records.is_empty()))
}

/// The shape of the log of a file that was just written, and the bytes of the file.
pub(crate) fn shape_of(path: &Path, index: &impl FromSaved) -> Result<(LogShape, u64)> {
    let (reader, common) = (Reader::open(path)?, index.common());
    let row_bytes = (common.dim * common.elements.size()) as u64;
    Ok((LogShape { index: reader.identity(), row_bytes }, reader.bytes()))
}
