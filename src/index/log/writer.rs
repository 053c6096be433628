//! Appends changes to a log, and makes them durable.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{failed, mismatch, same_access, sync_directory};
use crate::index::log::place::log_path;
use crate::index::log::record::{ChangeKind, HEAD_BYTES, LogShape, Record};

use crate::memory;

/// An open log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    path: PathBuf,
    file: File,
    shape: LogShape,
    /// Where the next record begins.
    end: u64,
    /// The disk has all bytes before this.
    synced: u64,
    /// Why the file may not be what this struct says; none where it is.
    fault: Option<String>,
}

impl LogWriter {
    /// Opens the log of an index and cuts it at `end`, or begins a new one where that is none.
    pub(crate) fn open(index: &Path, shape: LogShape, end: Option<u64>) -> Result<Self> {
        let path = log_path(index);
        let open = |is_new| OpenOptions::new().write(true).create_new(is_new).open(&path);
        let file = match open(true) {
            // Changes are as private as the index.
            Ok(file) => same_access(&file, index).map(|()| file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => open(false),
            Err(error) => Err(error),
        };
        let file = file.map_err(failed(&path))?;
        let mut log = Self { path, file, shape, end: 0, synced: 0, fault: None };
        let opened = match end {
            Some(end) => log.cut(end),
            None => log.begin(shape),
        };
        // Whoever finds changes later must not find bytes behind them that were cut here.
        let opened = opened.and_then(|()| log.file.sync_all()).and_then(|()| sync_directory(&log.path));
        opened.map_err(failed(&log.path))?;
        // Changes that another process left get a record that tells of the disk by the first call of `sync`.
        log.synced = HEAD_BYTES as u64;
        Ok(log)
    }

    /// Where the next record begins.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of changes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - HEAD_BYTES as u64
    }

    /// The index that the changes are of.
    pub(crate) fn index(&self) -> u64 {
        self.shape.index
    }

    /// Appends a record of a change that [`finish`](Self::finish) ends, or [`cut_back`](Self::cut_back).
    pub(crate) fn append(&mut self, kind: ChangeKind, ids: &[u64], rows: &[u8], next: u64) -> Result<()> {
        self.check()?;
        let record = Record { offset: self.end, kind, count: ids.len() as u64, next };
        let end = record.end(self.shape).ok_or_else(|| memory::out_of_memory(u64::MAX))?;
        let mut bytes: Vec<u8> = memory::with_room((end - self.end) as usize + HEAD_BYTES)?;
        bytes.extend(record.head(self.shape));
        bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(rows);
        let padding = Record::padding([size_of_val(ids) as u64, rows.len() as u64]);
        bytes.resize(bytes.len() + padding as usize, 0);
        let mut sum = self.shape.checksum(self.end);
        sum.update(&bytes[HEAD_BYTES..]);
        bytes.extend(sum.digest().to_le_bytes());
        // Room for the end of the change: a disk that is full by then does not matter.
        bytes.resize(bytes.len() + HEAD_BYTES, 0);
        self.write_at(self.end, &bytes).map_err(failed(&self.path))?;
        self.end = end;
        Ok(())
    }

    /// Ends a change, which the index has made.
    ///
    /// # Errors
    /// [`Error::Io`]; the log then takes no more changes, because the index is ahead of it.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.append_head(ChangeKind::End).map_err(|cause| {
            self.fail(format!("one without the end of a change ({cause})"));
            Error::Io { path: self.path.clone(), cause }
        })
    }

    fn append_head(&mut self, kind: ChangeKind) -> std::io::Result<()> {
        let record = Record { offset: self.end, kind, count: 0, next: 0 };
        self.write_at(self.end, &record.head(self.shape))?;
        self.end += HEAD_BYTES as u64;
        Ok(())
    }

    /// Takes back the records from `end` on, of a change without an end.
    pub(crate) fn cut_back(&mut self, end: u64) {
        if let Err(error) = self.cut(end) {
            self.fail(format!("one that could not be cut at byte {end} ({error})"));
        }
    }

    /// Refuses all changes until the file of the index is written anew.
    pub(crate) fn fail(&mut self, fault: String) {
        self.fault = Some(fault);
    }

    /// Returns when the disk has all records.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check()?;
        if self.synced == self.end {
            return Ok(());
        }
        if let Err(cause) = self.file.sync_data() {
            // Nobody knows which bytes the disk has: a second call would say that it has all.
            self.fault = Some(format!("one whose bytes may not be on the disk ({cause})"));
            return Err(Error::Io { path: self.path.clone(), cause });
        }
        // For readers, who tell damage from an unfinished change by it. The disk may get it later, and without it has all changes too.
        let end = self.end;
        if self.append_head(ChangeKind::Synced).is_err() {
            self.cut_back(end);
        }
        self.synced = self.end;
        Ok(())
    }

    /// Forgets all changes: the file of the index, which is another by now, has them.
    pub(crate) fn reset(&mut self, shape: LogShape) -> Result<()> {
        let reset = self.begin(shape).and_then(|()| self.file.sync_all());
        if let Err(cause) = reset {
            self.fault = Some(format!("one that could not be emptied ({cause})"));
            return Err(Error::Io { path: self.path.clone(), cause });
        }
        (self.synced, self.fault) = (self.end, None);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match &self.fault {
            Some(fault) => {
                Err(mismatch(&self.path, "a log that is whole: a checkpoint begins another", fault))
            }
            None => Ok(()),
        }
    }

    fn begin(&mut self, shape: LogShape) -> std::io::Result<()> {
        self.cut(0)?;
        self.write_at(0, &shape.header())?;
        (self.shape, self.end) = (shape, HEAD_BYTES as u64);
        Ok(())
    }

    fn cut(&mut self, end: u64) -> std::io::Result<()> {
        self.file.set_len(end)?;
        (self.end, self.synced) = (end, self.synced.min(end));
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }
}
