//! An index on a file: changes go to a log beside it, and a checkpoint puts them into the file.

mod checkpoint;
pub(crate) mod follower;

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::elements::{HostVectors, Matrix};
use crate::engine::Vectors;
use crate::error::{Error, Result};
use crate::files::failed;
use crate::index::common::Resources;
use crate::index::file::Reader;
use crate::index::log::change::Change;
use crate::index::log::opening::{self, Opened};
use crate::index::log::place::WriterLock;
use crate::index::log::record::ChangeKind;
use crate::index::log::writer::LogWriter;
use crate::index::saved::SavedKind;
use crate::index::saved::kept::Load;
use crate::lock::lock;
use crate::options::AddOptions;
use crate::platform;

/// An index whose changes go to a log beside its file, so that a small change writes few bytes: made by [`Flat::open`](crate::Flat::open),
/// [`Ivf::open`](crate::Ivf::open), [`Index::open`](crate::Index::open), and [`Durable::create`].
///
/// A change appends the rows or ids that it is given to the log, `PATH.log`, and the index in memory takes it. [`sync`](Self::sync) returns
/// when the disk has all changes before it: none of them is lost then, whatever ends the process or the machine. A change that was not
/// synced is there as a whole or not at all after a crash. [`checkpoint`](Self::checkpoint) writes the file anew, with all changes, and
/// empties the log. Every [`load`](crate::Loader::load) of the path reads the log as well.
///
/// One process at a time has an index open for changes: a lock on `PATH.lock` keeps others out, and ends with the process. Any number may
/// load it, and a [`Follower`](crate::Follower) takes the changes of the one as they come.
///
/// It is used as the index that it holds, as far as that is not changed. Dropping it syncs nothing: changes since the last [`sync`](Self::sync)
/// survive the process, and not the machine. [`recover`](crate::Flat::recover) and [`compact`](crate::Flat::compact) are not among its methods:
/// open the file again, which leaves no gaps.
///
/// ```
/// use nearfield::{Device, Durable, Flat, Metric};
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("index.nf");
/// let device = Device::host();
/// let mut index = Durable::create(Flat::builder(&device, Metric::L2, 2).build()?, &path)?;
/// index.add(&[[0.0f32, 0.0], [3.0, 4.0]])?;
/// index.sync()?;
/// drop(index);
///
/// let mut index = Flat::open(&device, &path)?;
/// assert_eq!(index.search(&[[3.0f32, 3.0]], 1)?.row(0)[0].id, 1);
/// index.remove(&[0])?;
/// index.checkpoint()?;
/// assert_eq!(Flat::load(&device, &path)?.ids()?, [1]);
/// # Ok::<(), nearfield::Error>(())
/// ```
pub struct Durable<I> {
    index: I,
    path: PathBuf,
    log: Mutex<LogWriter>,
    /// Bytes of the file.
    bytes: Mutex<u64>,
    /// The part of the file's bytes beyond which the log is folded into it.
    part: Option<f64>,
    /// The most bytes that a checkpoint writes a second.
    rate: Option<u64>,
    /// Bytes of an unfinished change that were cut when the log was opened.
    cut: u64,
    /// The error of the last checkpoint that the index began by itself, and the bytes of the log then.
    failed: Option<(Error, u64)>,
    _lock: WriterLock,
}

impl<I: fmt::Debug> fmt::Debug for Durable<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable")
            .field("index", &self.index)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<I> Deref for Durable<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.index
    }
}

impl<I: Load> Durable<I> {
    /// Saves an index to a new file, and keeps it open for changes.
    ///
    /// # Errors
    /// [`Error::Io`] when there is a file already; [`Error::File`] when another writer has it; otherwise as
    /// [`Flat::save`](crate::Flat::save).
    pub fn create(index: I, path: impl AsRef<Path>) -> Result<Self> {
        let path = &absolute(path.as_ref())?;
        check_kind::<I>()?;
        let check = || match path.exists() {
            true => Err(Error::Io { path: path.clone(), cause: std::io::ErrorKind::AlreadyExists.into() }),
            false => Ok(()),
        };
        check()?;
        let writer = WriterLock::take(path)?;
        check()?;
        let device = index.common().device.clone();
        device.block_on(async { index.saving().await?.save_alone(path).await })?;
        let (shape, bytes) = opening::shape_of(path, &index)?;
        let log = LogWriter::open(path, shape, None)?;
        Ok(Self::over(index, path, log, (bytes, 0), writer))
    }

    pub(crate) fn of(path: &Path, resources: Resources) -> Result<Self> {
        let path = &absolute(path)?;
        check_kind::<I>()?;
        // A file that is no index gets no lock beside it.
        Reader::open(path)?;
        let writer = WriterLock::take(path)?;
        let device = resources.devices.first()?.clone();
        let opened = device.block_on(opening::open(path, resources))?;
        let Opened { index, shape, bytes, log } = opened;
        let cut = log.as_ref().map_or(0, |log| log.unfinished());
        let log = LogWriter::open(path, shape, log.map(|log| log.end))?;
        Ok(Self::over(index, path, log, (bytes, cut), writer))
    }

    fn over(index: I, path: &Path, log: LogWriter, (bytes, cut): (u64, u64), writer: WriterLock) -> Self {
        let (log, bytes) = (Mutex::new(log), Mutex::new(bytes));
        Self {
            index,
            path: path.into(),
            log,
            bytes,
            part: Some(1.0),
            rate: None,
            cut,
            failed: None,
            _lock: writer,
        }
    }

    /// Sets the part of the file's bytes beyond which a change folds the log into the file, as by [`checkpoint`](Self::checkpoint); none
    /// for never. A log below 64 MiB stays. Default: 1, so a file of 1 GB and its log take up to 2 GB. A checkpoint that fails for lack of
    /// space is tried again when the log has twice the bytes: [`checkpoint_error`](Self::checkpoint_error) tells.
    #[must_use]
    pub fn checkpoint_at(mut self, part: Option<f64>) -> Self {
        self.part = part;
        self
    }

    /// Sets the most bytes of rows that a call of [`checkpoint`](Self::checkpoint) writes a second, so that it takes less from searches that
    /// run meanwhile. Default: as many as there can be.
    #[must_use]
    pub fn checkpoint_rate(mut self, bytes_a_second: u64) -> Self {
        self.rate = Some(bytes_a_second.max(1));
        self
    }

    /// Adds rows under their insertion numbers: see [`Flat::add`](crate::Flat::add).
    ///
    /// # Errors
    /// As [`Flat::add`](crate::Flat::add); [`Error::Io`] when the log cannot be written. The index and its log are then as they were, but where
    /// the disk fails at the end of a change that the index has made, the log takes no more until a [`checkpoint`](Self::checkpoint).
    pub fn add<'r>(&mut self, rows: impl Into<Vectors<'r>>) -> Result<()> {
        self.add_with(rows, &AddOptions::new())
    }

    /// [`add`](Self::add) with options: ids of the caller's, and progress.
    ///
    /// # Errors
    /// As [`Flat::add_with`](crate::Flat::add_with); otherwise as [`add`](Self::add).
    pub fn add_with<'r>(&mut self, rows: impl Into<Vectors<'r>>, options: &AddOptions<'_>) -> Result<()> {
        let rows = rows.into();
        let device = self.index.common().device.clone();
        device.block_on(async {
            let taken = self.taken(&rows).await?;
            let rows = taken.as_ref().map_or(rows, Vectors::from);
            let (ids, next) = self.index.common().store.numbered(options.ids, rows.rows())?;
            let (kind, progress) = (ChangeKind::Add, options.progress);
            self.change(Change { kind, ids: &ids, rows: Some(rows), next, progress }).await
        })
    }

    /// Replaces the rows with these ids by others, `[ids, dim]`: see [`Flat::update`](crate::Flat::update).
    ///
    /// # Errors
    /// As [`Flat::update`](crate::Flat::update); otherwise as [`add`](Self::add).
    pub fn update<'r>(&mut self, ids: &[u64], rows: impl Into<Vectors<'r>>) -> Result<()> {
        let rows = rows.into();
        let device = self.index.common().device.clone();
        device.block_on(async {
            self.index.common().replaced(ids, &rows)?;
            let taken = self.taken(&rows).await?;
            let rows = taken.as_ref().map_or(rows, Vectors::from);
            let (kind, next) = (ChangeKind::Update, self.next());
            self.change(Change { kind, ids, rows: Some(rows), next, progress: None }).await
        })
    }

    /// Removes the rows with these ids: see [`Flat::remove`](crate::Flat::remove).
    ///
    /// # Errors
    /// As [`Flat::remove`](crate::Flat::remove); otherwise as [`add`](Self::add).
    pub fn remove(&mut self, ids: &[u64]) -> Result<()> {
        let device = self.index.common().device.clone();
        device.block_on(async {
            self.index.common().store.slots_of(ids)?;
            let (kind, next) = (ChangeKind::Remove, self.next());
            self.change(Change { kind, ids, rows: None, next, progress: None }).await
        })
    }

    /// Adds the rows of another index under their ids, as one change: see [`Flat::merge`](crate::Flat::merge).
    ///
    /// # Errors
    /// As [`Flat::merge`](crate::Flat::merge); [`Error::Io`] when the log cannot be written. Index and log have the same rows as before then.
    pub fn merge(&mut self, other: &I) -> Result<()> {
        let device = self.index.common().device.clone();
        device.block_on(async {
            let ids = self.index.common().mergeable(other.common())?;
            let (start, mut done) = (lock(&self.log).end(), 0);
            while done < ids.len() {
                let some = &ids[done..ids.len().min(done + other.common().piece())];
                if let Err(error) = self.merge_piece(other, some).await {
                    lock(&self.log).cut_back(start);
                    // The rows that are there already came with this call.
                    let (kind, ids, next) = (ChangeKind::Remove, &ids[..done], self.next());
                    let removed =
                        self.index.apply(Change { kind, ids, rows: None, next, progress: None }).await;
                    if let Err(error) = removed {
                        lock(&self.log).fail(format!("one that lacks a part of a merge ({error})"));
                    }
                    return Err(error.with_rows(|row| done as u64 + row));
                }
                done += some.len();
            }
            self.finish(done)
        })
    }

    /// Returns when the disk has all changes that were made before.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot say so. The log then takes no change until a [`checkpoint`](Self::checkpoint) has written all
    /// of them.
    pub fn sync(&self) -> Result<()> {
        lock(&self.log).sync()
    }

    /// Writes the file anew, with all changes, and empties the log. Searches of other threads go on meanwhile: the call only reads, and on
    /// Linux its thread gives way to theirs; [`sync`](Self::sync) waits for its end. When it returns, the disk has all changes.
    ///
    /// # Errors
    /// As [`Flat::save`](crate::Flat::save); [`Error::File`] when the file is not the one that was opened. No change is lost then. Where the
    /// file may have been replaced before the error, the log takes no more changes until another checkpoint succeeds.
    pub fn checkpoint(&self) -> Result<()> {
        platform::in_background(|| self.write_file(self.rate))
    }

    /// Saves the index to a file: that of another path as [`Flat::save`](crate::Flat::save), its own by a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// As [`Flat::save`](crate::Flat::save).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let is_own = |path: &Path| Some(path.canonicalize().ok()? == self.path.canonicalize().ok()?);
        if is_own(path) == Some(true) {
            return self.write_file(None);
        }
        let device = &self.index.common().device;
        device.block_on(async { self.index.saving().await?.save(path).await })
    }

    /// The file of the index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        lock(&self.log).bytes()
    }

    /// Bytes of an unfinished change that were cut when the index was opened: one that was being written when a process or the machine
    /// ended, and that was not synced.
    pub fn cut_bytes(&self) -> u64 {
        self.cut
    }

    /// The error of the last [`checkpoint_at`](Self::checkpoint_at); none after one that succeeded.
    pub fn checkpoint_error(&self) -> Option<&Error> {
        self.failed.as_ref().map(|(error, _)| error)
    }

    /// The index without its file. Changes are then in memory alone; another writer may open the file. Call [`sync`](Self::sync) before.
    pub fn into_inner(self) -> I {
        self.index
    }

    fn next(&self) -> u64 {
        self.index.common().store.next_number()
    }

    /// Checks new rows as the index does, and gives copies of the type that it stores; none where they are of that type in the host's memory.
    async fn taken(&self, rows: &Vectors<'_>) -> Result<Option<Matrix>> {
        let common = self.index.common();
        if let Some(quantized) = common.taken(rows).await? {
            return Ok(Some(quantized));
        }
        let fetched = rows.fetched().await?;
        let given = fetched.vectors();
        let copied = match (given.kind() == common.elements, rows) {
            (true, Vectors::Host(_)) => None,
            _ => {
                let mut copy = Matrix::with_room(common.elements, given.rows(), given.dim())?;
                copy.extend(given)?;
                Some(copy)
            }
        };
        // What the log has, the index takes when it is opened.
        copied.as_ref().map_or(*rows, Vectors::from).check_values("rows")?;
        Ok(copied)
    }

    async fn merge_piece(&mut self, other: &I, ids: &[u64]) -> Result<()> {
        let fetched = other.common().fetch(ids).await?;
        let rows = Vectors::from(&fetched);
        let taken = self.taken(&rows).await?;
        let rows = taken.as_ref().map_or(rows, Vectors::from);
        let (_, next) = self.index.common().store.numbered(Some(ids), ids.len())?;
        let change = Change { kind: ChangeKind::Add, ids, rows: Some(rows), next, progress: None };
        self.append(&change)?;
        self.index.apply(change).await
    }

    /// Appends a change to the log, and makes it. After an error both are as they were.
    async fn change(&mut self, change: Change<'_>) -> Result<()> {
        if change.ids.is_empty() {
            return Ok(());
        }
        let start = lock(&self.log).end();
        let made = match self.append(&change) {
            Ok(()) => self.index.apply(change).await,
            Err(error) => Err(error),
        };
        if made.is_err() {
            lock(&self.log).cut_back(start);
            return made;
        }
        self.finish(change.ids.len())
    }

    /// Ends a change of this many rows, which the index has made.
    fn finish(&mut self, rows: usize) -> Result<()> {
        if rows > 0 {
            lock(&self.log).finish()?;
            self.fold();
        }
        Ok(())
    }

    /// Appends the records of a change, or of a part of it, piece by piece.
    fn append(&self, change: &Change<'_>) -> Result<()> {
        let Change { kind, ids, rows, next, .. } = *change;
        let rows: Option<HostVectors<'_>> = rows.map(Vectors::on_host).transpose()?;
        let piece = self.index.common().piece();
        let mut log = lock(&self.log);
        for start in (0..ids.len()).step_by(piece) {
            let range = start..ids.len().min(start + piece);
            let bytes = rows.map_or(&[][..], |rows| rows.slice(range.clone()).bytes());
            // The insertion number behind this piece: rows of an add count one by one.
            let later = if kind == ChangeKind::Add { (ids.len() - range.end) as u64 } else { 0 };
            log.append(kind, &ids[range], bytes, next.saturating_sub(later))?;
        }
        Ok(())
    }
}

/// The same path wherever the process goes.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(failed(path))
}

/// A log has changes of rows with ids.
fn check_kind<I: Load>() -> Result<()> {
    match I::KINDS.contains(&SavedKind::MultiVector) {
        true => Err(Error::unsupported("a log of changes", "a Flat or an Ivf", "a MultiVector")),
        false => Ok(()),
    }
}
