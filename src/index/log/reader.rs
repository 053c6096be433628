//! Reads a log: finds the changes that are whole, and tells an unfinished one from damage.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{PositionedFile, failed, mismatch};
use crate::index::log::place::log_path;
use crate::index::log::record::{CHECKSUM_BYTES, ChangeKind, HEAD_BYTES, LogShape, Record, may_begin};
use crate::interrupt;
use crate::memory;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A log, and the changes in it that are whole.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: PositionedFile,
    pub(crate) shape: LogShape,
    /// The records of whole changes, in their order.
    pub(crate) records: Vec<Record>,
    /// The end of the last whole change.
    pub(crate) end: u64,
    /// The end of the file when it was read.
    length: u64,
}

impl Log {
    /// Reads the log of an index, if its shape is wanted; none where there is no log, or one that no change has reached.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is no log, and with the byte of a change that is damaged: one that the disk had as a whole.
    pub(crate) fn read(
        index: &Path,
        is_wanted: impl FnOnce(LogShape) -> Result<bool>,
    ) -> Result<Option<Self>> {
        let path = log_path(index);
        let file = match PositionedFile::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed(&path))?,
        };
        let length = file.length();
        if length < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEAD_BYTES];
        file.fill(0, &mut header).map_err(failed(&path))?;
        let Some(shape) = LogShape::of_header(&header) else {
            // A crash of the machine can leave the room of a header without its bytes.
            if length == HEAD_BYTES as u64 {
                return Ok(None);
            }
            return Err(mismatch(
                &path,
                "the log of an index, version 1",
                "a header that is damaged or another's",
            ));
        };
        if !is_wanted(shape)? {
            return Ok(None);
        }
        let mut log = Self { path, file, shape, records: vec![], end: HEAD_BYTES as u64, length };
        log.read_on()?;
        Ok(Some(log))
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes behind the last whole change: of one that was not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        self.length - self.end
    }

    /// Bytes of the whole changes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - HEAD_BYTES as u64
    }

    /// How many ids the changes of one kind have.
    pub(crate) fn ids(&self, kind: ChangeKind) -> u64 {
        self.records.iter().filter(|record| record.kind == kind).map(|record| record.count).sum()
    }

    /// Looks for changes that were appended since; false when the log is of another index by now.
    pub(crate) fn refresh(&mut self) -> Result<bool> {
        let file = PositionedFile::open(&self.path).map_err(failed(&self.path))?;
        let mut header = [0; HEAD_BYTES];
        let is_same = file.length() >= self.end && {
            file.fill(0, &mut header).map_err(failed(&self.path))?;
            LogShape::of_header(&header) == Some(self.shape)
        };
        if is_same {
            (self.length, self.file) = (file.length(), file);
            self.records.clear();
            self.read_on()?;
        }
        Ok(is_same)
    }

    /// Looks for changes behind those that were read.
    fn read_on(&mut self) -> Result<()> {
        let mut change: Vec<Record> = vec![];
        let mut at = self.end;
        loop {
            let Some(record) = self.record(at)? else {
                // A writer may have finished the record between the two looks.
                if at < self.length && self.is_durable(at)? && self.record(at)?.is_none() {
                    let found = "damaged bytes, which the disk had before";
                    return Err(mismatch(&self.path, format!("a whole change at byte {at}"), found));
                }
                return Ok(());
            };
            interrupt::check()?;
            at = record.end(self.shape).unwrap_or(self.length);
            if record.kind != ChangeKind::Synced {
                memory::reserve_more(&mut change, 1)?;
                change.push(record);
            }
            if !record.continues {
                memory::reserve_more(&mut self.records, change.len())?;
                self.records.append(&mut change);
                self.end = at;
            }
        }
    }

    /// The record at a place; none where no whole one is.
    fn record(&self, offset: u64) -> Result<Option<Record>> {
        let mut head = [0; HEAD_BYTES];
        if offset + HEAD_BYTES as u64 > self.length {
            return Ok(None);
        }
        self.fill(offset, &mut head)?;
        let record = Record::of_head(&head, self.shape, offset);
        let Some((record, end)) = record.and_then(|record| Some((record, record.end(self.shape)?))) else {
            return Ok(None);
        };
        if end > self.length {
            return Ok(None);
        }
        if record.kind == ChangeKind::Synced {
            return Ok(Some(record));
        }
        let mut sum = self.shape.checksum(offset);
        let (mut at, stop) = (offset + HEAD_BYTES as u64, end - CHECKSUM_BYTES as u64);
        let mut piece = memory::filled(PIECE.min((stop - at) as usize), 0)?;
        while at < stop {
            let bytes = (stop - at).min(piece.len() as u64) as usize;
            self.fill(at, &mut piece[..bytes])?;
            sum.update(&piece[..bytes]);
            at += bytes as u64;
        }
        let mut written = [0; CHECKSUM_BYTES];
        self.fill(stop, &mut written)?;
        Ok((u64::from_le_bytes(written) == sum.digest()).then_some(record))
    }

    /// Whether a record behind this place says that the disk had all bytes before it.
    fn is_durable(&self, place: u64) -> Result<bool> {
        let mut piece = memory::filled(PIECE.min(self.length as usize), 0)?;
        let mut at = place.next_multiple_of(8);
        while at + HEAD_BYTES as u64 <= self.length {
            interrupt::check()?;
            let bytes = (self.length - at).min(piece.len() as u64) as usize;
            self.fill(at, &mut piece[..bytes])?;
            // A head that begins in one piece may end in the next.
            let starts = bytes - HEAD_BYTES + 1;
            for start in (0..starts).step_by(8).filter(|&start| may_begin(&piece[start..])) {
                let head = std::array::from_fn(|byte| piece[start + byte]);
                let record = Record::of_head(&head, self.shape, at + start as u64);
                if record.is_some_and(|record| record.kind == ChangeKind::Synced) {
                    return Ok(true);
                }
            }
            at += starts.next_multiple_of(8) as u64;
        }
        Ok(false)
    }

    /// The ids of a record, and the bytes of its rows.
    pub(crate) fn body(&self, record: &Record) -> Result<(Vec<u64>, Vec<u8>)> {
        let [ids, rows] = record.body(self.shape).unwrap_or_default();
        let start = record.offset + HEAD_BYTES as u64;
        let mut values = memory::filled(ids as usize / size_of::<u64>(), 0u64)?;
        self.fill(start, bytemuck::cast_slice_mut(&mut values))?;
        values.iter_mut().for_each(|id| *id = u64::from_le(*id));
        let mut bytes = memory::filled(rows as usize, 0)?;
        self.fill(start + ids, &mut bytes)?;
        Ok((values, bytes))
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.fill(offset, bytes).map_err(|cause| Error::Io { path: self.path.clone(), cause })
    }
}
