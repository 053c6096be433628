//! Appends changes to a log, and makes them durable.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
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
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed(&path))?;
        let mut log = Self { path, file, shape, end: 0, synced: 0, fault: None };
        let opened = match end {
            Some(end) => log.cut(end),
            None => same_access(&log.file, index).and_then(|()| log.begin(shape)),
        };
        // Whoever finds changes later must not find bytes behind them that were cut here.
        let opened = opened.and_then(|()| log.file.sync_all()).and_then(|()| sync_directory(&log.path));
        opened.map_err(failed(&log.path))?;
        log.synced = log.end;
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

    /// Appends a record. After an error the log is as it was.
    pub(crate) fn append(
        &mut self,
        (kind, continues): (ChangeKind, bool),
        ids: &[u64],
        rows: &[u8],
        next: u64,
    ) -> Result<()> {
        self.check()?;
        let record = Record { offset: self.end, kind, continues, count: ids.len() as u64, next };
        let end = record.end(self.shape).ok_or_else(|| memory::out_of_memory(u64::MAX))?;
        let mut bytes: Vec<u8> = memory::with_room((end - self.end) as usize)?;
        bytes.extend(record.head(self.shape));
        if kind != ChangeKind::Synced {
            bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            bytes.extend(rows);
            bytes.resize(
                bytes.len() + Record::padding([size_of_val(ids) as u64, rows.len() as u64]) as usize,
                0,
            );
            let mut sum = self.shape.checksum(self.end);
            sum.update(&bytes[HEAD_BYTES..]);
            bytes.extend(sum.digest().to_le_bytes());
        }
        if let Err(cause) = self.write_at(self.end, &bytes) {
            self.cut_back(self.end);
            return Err(Error::Io { path: self.path.clone(), cause });
        }
        self.end = end;
        Ok(())
    }

    /// Takes back the records from `end` on, which no reader has counted on.
    pub(crate) fn cut_back(&mut self, end: u64) {
        if let Err(error) = self.cut(end) {
            self.fault = Some(format!("one that could not be cut at byte {end} ({error})"));
        }
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
        // For readers, who tell damage from an unfinished change by it. The disk may get it later.
        self.append((ChangeKind::Synced, false), &[], &[], 0)?;
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
